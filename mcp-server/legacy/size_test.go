package legacy_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/pgmesh/pgmesh/mcp-server/legacy"
	legacyv1 "github.com/pgmesh/pgmesh/proto/istio/mcp/v1alpha1"
)

func small(cfg *legacy.Config) { cfg.MaxMessage = 4000 }

// large writes VirtualServices of some 500 bytes each.
func (m *mesh) large(names ...string) {
	m.t.Helper()
	for i, n := range names {
		names[i] = n + "=" + strings.Repeat("host-of-many-letters.", 10) + "a" + fmt.Sprint(m.revision)
	}
	m.write(names...)
}

func numbered(prefix string, n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprintf("%s%02d", prefix, i))
	}
	return names
}

func TestACollectionThatIsTooLargeIsReportedAndNotSent(t *testing.T) {
	t.Parallel()
	m := newMesh(t, small)
	m.large("a")
	s := m.connect()
	s.ask(virtualServices, gateways)
	first, other := s.recv(), s.recv()
	require.Len(t, first.GetResources(), 1)
	s.ack(first)
	s.ack(other)

	m.large(numbered("n", 20)...)
	m.sql(`INSERT INTO mesh.gateways (name, servers) VALUES ('g', '[{"port": {"number": 80, "name": "http", "protocol": "HTTP"}, "hosts": ["*"]}]')`)
	next := s.recv()
	require.Equal(t, gateways, next.GetCollection(), "other collections go on, and so does the stream")
	s.ack(next)
	s.silent(serviceRoles)
	require.InDelta(t, 1, m.metric("legacy_withheld_total", virtualServices), 0)
	size := m.metric("legacy_withheld_bytes", virtualServices)
	require.Greater(t, size, 4000.0)
	require.Contains(t, m.log.String(), fmt.Sprintf("collection=%s bytes=%.0f max_bytes=4000", virtualServices, size))
	require.Contains(t, m.log.String(), "--mcpMaxMsgSize")
	streams := m.source.Streams()
	require.InDelta(t, size, streams[0].Collections[1].WithheldBytes, 0)
	require.Equal(t, virtualServices, streams[0].Collections[1].Name)

	m.sql("DELETE FROM mesh.virtual_services WHERE name > 'n01'")
	next = s.recv()
	require.Equal(t, []string{"default/a", "default/n00", "default/n01"}, names(next), "it is sent as soon as it fits")
	require.Zero(t, m.metric("legacy_withheld_bytes", virtualServices))
	require.Zero(t, m.source.Streams()[0].Collections[1].WithheldBytes)
}

// A response may use a Pilot's limit to the byte, and a Pilot with that limit receives it.
func TestTheLargestResponseIsReceived(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	m.sql("INSERT INTO mesh.settings (name, value) VALUES ('resource_max_bytes', '8000000')")
	m.sql(`INSERT INTO mesh.resources (kind, name, spec) SELECT 'EnvoyFilter', 'x', jsonb_build_object('configPatches', jsonb_build_array(jsonb_build_object(
		'applyTo', 'CLUSTER', 'patch', jsonb_build_object('operation', 'MERGE', 'value', jsonb_build_object('alt_stat_name', repeat('x', 4000000))))))`)
	filters := "istio/networking/v1alpha3/envoyfilters"
	s := m.connect()
	s.ask(filters)
	r := s.recv()
	rest := legacy.MaxMessage - proto.Size(r)
	s.ack(r)
	grow := func(by int) {
		m.sql(`UPDATE mesh.resources SET spec = jsonb_set(spec, '{configPatches,0,patch,value,alt_stat_name}', to_jsonb(repeat('x', $1)))`, 4000000+by)
	}
	grow(rest - 2) // room for two bytes that a message which is incremental would take
	r = s.recv()
	require.Equal(t, legacy.MaxMessage-2, proto.Size(r))
	s.ack(r)
	grow(rest + 1)
	s.silent(gateways)
	require.InDelta(t, legacy.MaxMessage, m.metric("legacy_withheld_bytes", filters), 1000)
}

func TestASinkThatTakesChangesIsSentALargeOneInParts(t *testing.T) {
	t.Parallel()
	m := newMesh(t, small)
	m.large(numbered("n", 30)...)
	s := m.connect()
	sink := &model{t, map[string]string{}, map[string]bool{}}
	s.askIncremental(virtualServices, nil)
	parts := 0
	for len(sink.has) < 30 {
		r := s.recv()
		require.LessOrEqual(t, proto.Size(r), 4000)
		require.True(t, r.GetIncremental())
		sink.apply(r)
		s.ackIncremental(r)
		parts++
	}
	require.Greater(t, parts, 2)
	s.silent(gateways)
	require.Zero(t, m.metric("legacy_withheld_total", virtualServices))

	m.remove(numbered("n", 30)...)
	r := s.recv()
	require.Len(t, r.GetRemovedResources(), 30)
	s.ackIncremental(r)
	s.silent(serviceRoles)
}

func TestASinkThatRefusesAPartEndsWithTheRightResources(t *testing.T) {
	t.Parallel()
	m := newMesh(t, small)
	s := m.connect()
	sink := &model{t, map[string]string{}, map[string]bool{}}
	s.askIncremental(virtualServices, nil)
	s.ackIncremental(s.recv())
	m.large(numbered("n", 30)...)
	first := s.recv()
	sink.apply(first)
	s.ackIncremental(first)
	s.nackIncremental(s.recv())
	s.silent(gateways)

	gone := strings.TrimPrefix(slices.Sorted(maps.Keys(sink.has))[0], "default/")
	m.remove(gone)
	for {
		r := s.recv()
		for _, name := range r.GetRemovedResources() {
			delete(sink.has, name)
		}
		maps.Copy(sink.has, versions(r))
		s.ackIncremental(r)
		if len(r.GetRemovedResources()) > 0 {
			require.Equal(t, []string{"default/" + gone}, r.GetRemovedResources(), "what it had of the parts is not forgotten")
			break
		}
	}
	s.silent(serviceRoles)
	require.Len(t, sink.has, 29)
}

func TestACollectionIsTooLargeOnceASinkStopsTakingChanges(t *testing.T) {
	t.Parallel()
	m := newMesh(t, small)
	m.large(numbered("n", 30)...)
	s := m.connect()
	s.askIncremental(virtualServices, nil)
	r := s.recv()
	s.send(&legacyv1.RequestResources{Collection: virtualServices, ResponseNonce: r.GetNonce()})
	s.silent(gateways)
	require.InDelta(t, 1, m.metric("legacy_withheld_total", virtualServices), 0)
}

func TestAResourceThatFitsIntoNoMessageIsLeftOut(t *testing.T) {
	t.Parallel()
	m := newMesh(t, small)
	m.write("a=a", "b=b", "huge=small")
	s := m.connect()
	s.askIncremental(virtualServices, nil)
	first := s.recv()
	s.ackIncremental(first)
	m.sql(`UPDATE mesh.virtual_services SET hosts = (SELECT array_agg('host-' || n) FROM generate_series(1, 1000) n) WHERE name = 'huge';
		DELETE FROM mesh.virtual_services WHERE name = 'b'; UPDATE mesh.virtual_services SET hosts = '{x}' WHERE name = 'a'`)
	r := s.recv()
	require.Equal(t, []string{"default/a"}, names(r))
	require.Equal(t, []string{"default/b"}, r.GetRemovedResources())
	s.ackIncremental(r)
	s.silent(gateways)
	require.Contains(t, m.log.String(), "resource=default/huge")
	require.Greater(t, m.metric("legacy_withheld_bytes", virtualServices), 4000.0)

	m.write("huge=small") // as the sink has it
	s.silent(serviceRoles)
	m.write("huge=other")
	r = s.recv()
	require.Equal(t, []string{"default/huge"}, names(r))
	s.ackIncremental(r)
	s.silent(meshConfigs)
	require.Zero(t, m.metric("legacy_withheld_bytes", virtualServices))
}
