package legacy_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"

	legacyv1 "github.com/pgmesh/pgmesh/proto/istio/mcp/v1alpha1"
)

// askIncremental sends a first request that accepts changes, and says what the sink has.
func (s *sink) askIncremental(collection string, held map[string]string) {
	s.t.Helper()
	s.send(&legacyv1.RequestResources{Collection: collection, Incremental: true, InitialResourceVersions: held})
}

func (s *sink) ackIncremental(r *legacyv1.Resources) {
	s.t.Helper()
	s.send(&legacyv1.RequestResources{Collection: r.GetCollection(), ResponseNonce: r.GetNonce(), Incremental: true})
}

func (s *sink) nackIncremental(r *legacyv1.Resources) {
	s.t.Helper()
	s.send(&legacyv1.RequestResources{
		Collection: r.GetCollection(), ResponseNonce: r.GetNonce(), Incremental: true, ErrorDetail: &rpcstatus.Status{Code: 3, Message: "no"},
	})
}

// versions has the versions of a response's resources by name.
func versions(r *legacyv1.Resources) map[string]string {
	m := map[string]string{}
	for _, one := range r.GetResources() {
		m[one.GetMetadata().GetName()] = one.GetMetadata().GetVersion()
	}
	return m
}

func TestASinkThatTakesChangesIsSentWhatChanged(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	m.write("a=a", "b=b", "c=c")
	s := m.connect()
	s.askIncremental(virtualServices, nil)
	first := s.recv()
	require.False(t, first.GetIncremental(), "who has nothing is sent all")
	require.Len(t, first.GetResources(), 3)
	s.ackIncremental(first)

	m.sql(`UPDATE mesh.virtual_services SET hosts = '{x}' WHERE name = 'a'; DELETE FROM mesh.virtual_services WHERE name = 'b'`)
	second := s.recv()
	require.True(t, second.GetIncremental())
	require.Equal(t, []string{"default/a"}, names(second))
	require.Equal(t, []string{"default/b"}, second.GetRemovedResources())
	s.ackIncremental(second)
	s.silent(gateways)
}

func TestASinkMayKeepWhatItHasFromAnEarlierStream(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	m.write("a=a", "b=b", "c=c")
	s := m.connect()
	s.askIncremental(virtualServices, nil)
	held := versions(s.recv())
	m.write("b=x", "d=d")
	m.remove("c")

	again := m.connect()
	again.askIncremental(virtualServices, held)
	r := again.recv()
	require.True(t, r.GetIncremental())
	require.Equal(t, []string{"default/b", "default/d"}, names(r))
	require.Equal(t, []string{"default/c"}, r.GetRemovedResources(), "what is gone since then too")
	again.ackIncremental(r)
	m.write("a=y")
	require.Equal(t, []string{"default/a"}, names(again.recv()))

	s = m.connect()
	s.askIncremental(virtualServices, map[string]string{"default/elsewhere": "1", "default/a": "v17"})
	r = s.recv()
	require.Len(t, r.GetResources(), 3)
	require.Equal(t, []string{"default/elsewhere"}, r.GetRemovedResources())
}

func TestASinkThatHasEverythingIsAnswered(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	m.write("a=a")
	s := m.connect()
	s.askIncremental(virtualServices, nil)
	held := versions(s.recv())
	again := m.connect()
	again.askIncremental(virtualServices, held)
	r := again.recv()
	require.True(t, r.GetIncremental())
	require.Empty(t, r.GetResources())
	require.Empty(t, r.GetRemovedResources())
}

func TestARefusalThatIsNotIncrementalIsFollowedByTheWhole(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	m.write("a=a", "b=b")
	s := m.connect()
	s.askIncremental(virtualServices, nil)
	s.ackIncremental(s.recv())
	m.write("a=x")
	s.nack(s.recv()) // as the stock sink refuses
	s.silent(gateways)
	m.remove("b")
	r := s.recv()
	require.False(t, r.GetIncremental())
	require.Equal(t, []string{"default/a"}, names(r))
	require.Empty(t, r.GetRemovedResources())
}

func TestRefusedChangesAreSentAgainWithNewOnes(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	m.write("a=a", "b=b")
	s := m.connect()
	s.askIncremental(virtualServices, nil)
	s.ackIncremental(s.recv())
	m.write("a=x")
	s.nackIncremental(s.recv())
	s.silent(gateways)
	m.write("b=y")
	r := s.recv()
	require.True(t, r.GetIncremental())
	require.Equal(t, []string{"default/a", "default/b"}, names(r), "since what was accepted last")
	s.ackIncremental(r)
	s.silent(serviceRoles)
}

func TestAChangeThatWasUndoneAfterARefusalIsNotSent(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	m.write("a=a")
	s := m.connect()
	s.askIncremental(virtualServices, nil)
	s.ackIncremental(s.recv())
	m.write("a=x")
	s.nackIncremental(s.recv())
	s.silent(gateways)
	m.write("a=a")
	s.silent(serviceRoles)
	m.write("b=b")
	require.Equal(t, []string{"default/b"}, names(s.recv()))
}

// The sink says what it has before it has read a response on its way.
func TestAResponseOnItsWayCountsWhenASinkAsksAgain(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	m.write("a=a")
	s := m.connect()
	s.askIncremental(virtualServices, nil)
	first := s.recv()
	s.ackIncremental(first)
	s.silent(gateways)
	m.write("a=b")
	s.recv() // it is sent, and the sink will have it
	s.askIncremental(virtualServices, versions(first))
	require.Equal(t, []string{"default/a"}, names(s.recv()))
	s.askIncremental(virtualServices, versions(first))
	s.recv()
	m.write("a=a")
	s.askIncremental(virtualServices, versions(first))
	require.Equal(t, []string{"default/a"}, names(s.recv()), "it is what the sink named, and not what it has")
}

func TestASinkMaySwitchBetweenChangesAndWholes(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	m.write("a=a", "b=b")
	s := m.connect()
	s.ask(virtualServices)
	s.ackIncremental(s.recv())
	m.write("a=x")
	r := s.recv()
	require.True(t, r.GetIncremental())
	require.Equal(t, []string{"default/a"}, names(r))
	s.send(&legacyv1.RequestResources{Collection: virtualServices, ResponseNonce: r.GetNonce()})
	m.write("a=y")
	r = s.recv()
	require.False(t, r.GetIncremental())
	require.Len(t, r.GetResources(), 2)
}

func TestTheMeshConfigIsIncrementalToo(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	m.sql(`INSERT INTO mesh.resources (kind, namespace, name, spec) VALUES ('MeshConfig', 'istio-system', 'istio', '{}')`)
	s := m.connect()
	s.askIncremental(meshConfigs, map[string]string{"istio-system/meshconfig": "v1"})
	r := s.recv()
	require.Equal(t, []string{"istio-system/meshconfig"}, names(r))
	s.ackIncremental(r)
	m.sql("DELETE FROM mesh.resources")
	require.Equal(t, []string{"istio-system/meshconfig"}, s.recv().GetRemovedResources())
}

// model applies responses as the stock sink does.
type model struct {
	t    *testing.T
	has  map[string]string
	seen map[string]bool // nonces
}

func (m *model) apply(r *legacyv1.Resources) {
	require.False(m.t, m.seen[r.GetNonce()], "a nonce was used twice")
	m.seen[r.GetNonce()] = true
	if !r.GetIncremental() {
		require.Empty(m.t, r.GetRemovedResources())
		clear(m.has)
	}
	maps.Copy(m.has, versions(r))
	for _, name := range r.GetRemovedResources() {
		delete(m.has, name)
	}
}

// Whatever a sink accepts, refuses and forgets, it ends with what the mesh has.
func TestASinkEndsWithWhatTheMeshHas(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	for seed := range uint64(6) {
		dice := rand.New(rand.NewPCG(seed, 5))
		sink := &model{t, map[string]string{}, nil}
		s := m.connect()
		ask := func() {
			sink.seen = map[string]bool{}
			s.send(&legacyv1.RequestResources{
				Collection: virtualServices, Incremental: dice.IntN(4) > 0, InitialResourceVersions: maps.Clone(sink.has),
			})
		}
		ask()
		probes := 0
		for range 30 {
			for range dice.IntN(3) {
				m.write(fmt.Sprintf("n%d=h%d", dice.IntN(6), dice.IntN(3)))
			}
			if dice.IntN(3) == 0 {
				m.remove(fmt.Sprintf("n%d", dice.IntN(6)))
			}
			if dice.IntN(8) == 0 {
				s, probes = m.connect(), 0
				ask()
			}
			answer(s, sink, dice, &probes)
		}
		// In the end it accepts everything.
		last := fmt.Sprint("last", seed)
		m.write(last + "=end")
		drain(s, sink, "default/"+last)
		fresh := m.connect()
		fresh.ask(virtualServices)
		require.Equal(t, versions(fresh.recv()), sink.has, "seed %d", seed)
	}
}

// answer applies everything that has come, and answers some of it.
func answer(s *sink, sink *model, dice *rand.Rand, probes *int) {
	// The answer to a probe shows that nothing more will come. Each collection can be a probe once
	// for each stream.
	probe := append(slices.Clone(pilots[1:]), others...)[*probes]
	*probes++
	s.ask(probe)
	for {
		r := s.recv()
		if r.GetCollection() == probe {
			return
		}
		request := &legacyv1.RequestResources{Collection: virtualServices, ResponseNonce: r.GetNonce(), Incremental: dice.IntN(3) > 0}
		if dice.IntN(4) == 0 {
			request.ErrorDetail = &rpcstatus.Status{Code: 3, Message: "no"}
		} else {
			sink.apply(r)
		}
		s.send(request)
	}
}

// drain asks again and applies responses until it has the last resource.
func drain(s *sink, sink *model, last string) {
	s.send(&legacyv1.RequestResources{Collection: virtualServices, Incremental: true, InitialResourceVersions: maps.Clone(sink.has)})
	for sink.has[last] == "" {
		r := s.recv()
		sink.apply(r)
		s.ackIncremental(r)
	}
}
