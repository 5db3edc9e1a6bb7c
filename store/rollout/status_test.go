package rollout_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/storetest"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/store/rollout"
)

// virtualService names one of the namespace default, where Put writes.
func virtualService(name string) rollout.Resource {
	return rollout.Resource{Group: "networking.istio.io", Kind: "VirtualService", Namespace: "default", Name: name}
}

// concerning is an audience of some circles; of everyone without any.
func concerning(name string, circles ...uint32) rollout.Audience {
	return rollout.Audience{Resource: virtualService(name), Everyone: len(circles) == 0, Circles: circles}
}

// circled is a proxy of a circle in step.
func circled(stream uint64, name string, circle uint32) rollout.Proxy {
	p := of(stream, name)
	p.Circle = circle
	return p
}

// blamed is a VirtualService that a listener was made from.
func blamed(name string) rollout.Source {
	return rollout.Source{Resource: virtualService(name), Path: "spec.http[0]"}
}

// refusing is a proxy that refuses a listener which was made from VirtualServices.
func refusing(stream uint64, sent, runs int64, sources ...string) rollout.Proxy {
	f := rollout.Refusal{TypeURL: "type.googleapis.com/envoy.config.listener.v3.Listener", Resource: "0.0.0.0_80", Reason: "no such filter", Since: time.Now().Add(-time.Minute).Truncate(time.Second)}
	for _, name := range sources {
		f.Sources = append(f.Sources, blamed(name))
	}
	return rollout.Proxy{Stream: stream, State: rollout.Refused, Sent: sent, Runs: runs, Refused: 1, Refusals: []rollout.Refusal{f}}
}

// programmed is the condition Programmed of a VirtualService, and its numbers.
func (b *bench) programmed(name string) string {
	b.t.Helper()
	list, err := rollout.New(b.store).Statuses(b.t.Context(), nil, rollout.Selection{Names: []string{name}})
	require.NoError(b.t, err)
	require.Len(b.t, list, 1)
	i := slices.IndexFunc(list[0].Conditions, func(c rollout.Condition) bool { return c.Type == "Programmed" })
	c := list[0].Conditions[i]
	require.Equal(b.t, fmt.Sprint(list), fmt.Sprint(b.all(name)), "one is as it is among all")
	return fmt.Sprintf("%s %s: %s (%d %d %d)", c.Status, c.Reason, c.Message, list[0].Concerned, list[0].Running, list[0].Refusing)
}

// all is the row of a resource where all are read.
func (b *bench) all(name string) []rollout.Status {
	b.t.Helper()
	list, err := rollout.New(b.store).Statuses(b.t.Context(), nil, rollout.Selection{})
	require.NoError(b.t, err)
	return slices.DeleteFunc(list, func(s rollout.Status) bool { return s.Name != name })
}

func (b *bench) runs(name string) []string {
	b.t.Helper()
	return storetest.Collect[string](b.db, "SELECT proxy FROM mesh.runs('vs', 'default', $1) ORDER BY 1", name)
}

func TestAStatusSaysWhoRunsAResource(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.keeper.Close(t.Context())
	b.db.Put("web", "web.example")
	b.db.Put("shop", "shop.example")
	require.Equal(t, "Unknown NotReported: no discovery reports what proxies run (0 0 0)", b.programmed("web"))
	b.keeper = b.keep("mcp")
	b.begin()
	b.sends(rollout.Message{Revision: 1, Proxies: []rollout.Proxy{circled(1, "a", 1), circled(2, "b", 1), circled(3, "c", 2)}, Audiences: []rollout.Audience{concerning("shop", 1)}})
	require.Equal(t, "Unknown NoProxies: it concerns no proxy that is connected (0 0 0)", b.programmed("web"))
	require.Equal(t, "False Pending: 0 of 2 proxies run it (2 0 0)", b.programmed("shop"))
	b.sends(rollout.Message{Revision: 2, Audiences: []rollout.Audience{concerning("web")}, Proxies: []rollout.Proxy{{Stream: 2, State: rollout.Sending, Sent: 2, Runs: 1, Circle: 1}}})
	require.Equal(t, "True Programmed: 3 of 3 proxies run it (3 3 0)", b.programmed("web"))
	require.Equal(t, "False Pending: 1 of 2 proxies run it (2 1 0)", b.programmed("shop"))
	require.Equal(t, []string{"a", "b", "c"}, b.runs("web"))
	require.Equal(t, []string{"a"}, b.runs("shop"))

	b.sends(rollout.Message{Revision: 2, Proxies: []rollout.Proxy{{Stream: 2, State: rollout.Synced, Circle: 2}}})
	require.Equal(t, "True Programmed: 1 of 1 proxies run it (1 1 0)", b.programmed("shop"), "the other is of another circle now")
	b.sends(rollout.Message{Revision: 2, Audiences: []rollout.Audience{concerning("shop", 2, 1, 2)}})
	require.Equal(t, []string{"a", "b", "c"}, b.runs("shop"))
	require.Equal(t, "True Programmed: 3 of 3 proxies run it (3 3 0)", b.programmed("shop"), "a circle that is named twice counts once")

	mine := refusing(3, 2, 2, "shop", "gone")
	mine.Circle = 2
	b.sends(rollout.Message{Revision: 2, Proxies: []rollout.Proxy{mine}})
	require.Equal(t, "False Refused: 1 of 3 proxies refuse it: shop/c refuses 0.0.0.0_80: no such filter (3 2 1)", b.programmed("shop"))
	require.Equal(t, "True Programmed: 3 of 3 proxies run it (3 3 0)", b.programmed("web"), "that was not made from it")
	require.Equal(t, []string{"a", "b"}, b.runs("shop"))
	b.sends(rollout.Message{Revision: 2, Audiences: []rollout.Audience{{Resource: virtualService("shop")}}})
	require.Equal(t, "False Refused: 1 of 1 proxies refuse it: shop/c refuses 0.0.0.0_80: no such filter (1 0 1)", b.programmed("shop"), "it concerns who refuses it")
	require.Empty(t, b.runs("shop"))
	b.sends(rollout.Message{Revision: 2, Gone: []uint64{3}})
	require.Equal(t, "Unknown NoProxies: it concerns no proxy that is connected (0 0 0)", b.programmed("shop"))
	b.db.Put("web", "web2.example")
	require.Equal(t, "False Pending: 0 of 2 proxies run it (2 0 0)", b.programmed("web"), "they run the version before")
	b.keeper.Close(t.Context())
	require.Equal(t, "Unknown NotReported: no discovery reports what proxies run (0 0 0)", b.programmed("web"))
}

// The circles of a report are its own.
func TestAudiencesAreOfTheirReport(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.db.Put("web", "web.example")
	b.sends(rollout.Message{Revision: 1, Proxies: []rollout.Proxy{circled(1, "a", 1), circled(2, "b", 2)}, Audiences: []rollout.Audience{concerning("web", 1)}})
	other := b.keep("other")
	id, err := other.Begin(t.Context(), "us")
	require.NoError(t, err)
	require.NoError(t, other.Report(t.Context(), id, rollout.Message{Number: 1, Revision: 0, Proxies: []rollout.Proxy{circled(1, "c", 1), circled(2, "d", 2)}, Audiences: []rollout.Audience{concerning("web", 2)}}))
	require.Equal(t, "False Pending: 1 of 2 proxies run it (2 1 0)", b.programmed("web"))
	require.Equal(t, []string{"a"}, b.runs("web"))
	revision, list, ok, err := rollout.New(b.store).Runners(t.Context(), nil, storetest.Key(t, "web"))
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, int64(1), revision)
	var lines []string
	for _, r := range list {
		lines = append(lines, fmt.Sprintf("%s %t %s", r.Proxy, r.RunsIt, r.Discovery))
	}
	require.Equal(t, []string{"a true eu", "d false us"}, lines)
	_, _, ok, err = rollout.New(b.store).Runners(t.Context(), nil, storetest.Key(t, "nobody"))
	require.NoError(t, err)
	require.False(t, ok)
}

// Every problem of a resource is in exactly one of its conditions.
func TestConditionsHaveAllProblems(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.db.Exec(`INSERT INTO mesh.virtual_services (namespace, name, hosts, gateways, http) VALUES
		('default', 'broken', '{a.example}', '{nowhere}', '[{"route": [{"destination": {"host": "missing.example"}, "weight": 1}, {"destination": {"host": "other.example"}, "weight": 150}]}]'),
		('default', 'one', '{b.example}', NULL, '[{"directResponse": {"status": 200}}]'), ('default', 'two', '{b.example}', NULL, '[{"directResponse": {"status": 200}}]')`)
	b.sends(rollout.Message{Revision: 1, Proxies: []rollout.Proxy{of(1, "cart")}, Problems: &[]rollout.Problem{
		{Resource: virtualService("one"), Path: "spec.http[0]", Code: "not-as-written", Message: "it means something else"},
		{Resource: virtualService("two"), Code: "something-new", Message: "nobody knows it here"},
		{Resource: virtualService("gone"), Code: "left-out", Message: "there is no such resource"},
	}})
	require.Equal(t, []string{
		"VirtualService/one error not-as-written change this resource, or the one that stands in its way",
		"VirtualService/two warning something-new",
	}, storetest.Collect[string](b.db, "SELECT concat_ws(' ', kind || '/' || name, severity, code, hint) FROM mesh.problems WHERE code IN ('not-as-written', 'something-new', 'left-out') ORDER BY 1"))

	list, err := rollout.New(b.store).Statuses(t.Context(), nil, rollout.Selection{Kinds: []*kinds.Kind{storetest.Key(t, "x").Kind}})
	require.NoError(t, err)
	lines := map[string][]string{}
	for _, s := range list {
		for _, c := range s.Conditions {
			require.Regexp(t, "^[A-Z][A-Za-z]*$", c.Reason)
			lines[s.Name] = append(lines[s.Name], c.Type+" "+c.Status+" "+c.Reason)
		}
		for _, problem := range storetest.Collect[string](b.db, "SELECT concat_ws(': ', nullif(path, ''), message) FROM mesh.problems WHERE name = $1", s.Name) {
			in := slices.DeleteFunc(slices.Clone(s.Conditions), func(c rollout.Condition) bool { return !strings.Contains(c.Message, problem) })
			require.Len(t, in, 1, problem)
		}
	}
	require.Equal(t, map[string][]string{
		"broken": {"Accepted True Accepted", "ResolvedRefs False UnknownGateway", "Programmed Unknown NoProxies", "HasWarnings True UnevenWeights"},
		"one":    {"Accepted False NotAsWritten", "ResolvedRefs True ResolvedRefs", "Programmed Unknown NoProxies", "Conflicted True HostConflict"},
		"two":    {"Accepted True Accepted", "ResolvedRefs True ResolvedRefs", "Programmed Unknown NoProxies", "Conflicted True HostConflict", "HasWarnings True SomethingNew"},
	}, lines)

	other := b.keep("other")
	id, err := other.Begin(t.Context(), "us")
	require.NoError(t, err)
	same := []rollout.Problem{{Resource: virtualService("two"), Code: "something-new", Message: "nobody knows it here"}}
	require.NoError(t, other.Report(t.Context(), id, rollout.Message{Number: 1, Problems: &same}))
	const of = "SELECT count(*) FROM mesh.problems WHERE code = 'something-new'"
	require.Equal(t, int64(1), storetest.Value[int64](b.db, of), "two find it")
	b.sends(rollout.Message{Revision: 1, Problems: &[]rollout.Problem{}})
	require.Equal(t, int64(1), storetest.Value[int64](b.db, of), "one finds it")
	other.Close(t.Context())
	require.Zero(t, storetest.Value[int64](b.db, of), "nobody does")
}

func TestARefusalNamesWhatItWasMadeFrom(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.db.Put("old", "old.example")
	b.db.Put("new", "new.example")
	b.sends(rollout.Message{Revision: 2, Proxies: []rollout.Proxy{of(1, "cart"), of(2, "pay")}})
	refused := refusing(1, 2, 1, "old", "new", "gone")
	refused.Refusals[0].Reason = strings.Repeat("x", 5000) + "\x00"
	b.sends(rollout.Message{Revision: 2, Proxies: []rollout.Proxy{refused, refusing(2, 2, 2, "gone")}})
	list, err := rollout.New(b.store).Refusals(t.Context(), nil, nil, "")
	require.NoError(t, err)
	require.Len(t, list, 2)
	require.Equal(t, blamed("new"), list[0].Source)
	require.Equal(t, []rollout.Source{blamed("old"), blamed("new"), blamed("gone")}, list[0].Sources)
	require.Equal(t, []any{int64(2), 4096, "eu", "cart"}, []any{list[0].Revision, len(list[0].Reason), list[0].Discovery, list[0].Proxy})
	require.NotEmpty(t, list[0].Author)
	require.Equal(t, []any{blamed("gone"), int64(0), ""}, []any{list[1].Source, list[1].Revision, list[1].Author})
	since := storetest.Value[string](b.db, "SELECT xmin::text FROM mesh_internal.reported_proxies WHERE stream = 2")
	b.sends(rollout.Message{Revision: 2, Proxies: []rollout.Proxy{{Stream: 1, State: rollout.Synced}}})
	require.Equal(t, since, storetest.Value[string](b.db, "SELECT xmin::text FROM mesh_internal.reported_proxies WHERE stream = 2"), "what is not in the message is not written")
	require.Equal(t, []string{"pay"}, storetest.Collect[string](b.db, "SELECT proxy FROM mesh.refusals"))
	of, err := rollout.New(b.store).Refusals(t.Context(), nil, []string{"web"}, "")
	require.NoError(t, err)
	require.Empty(t, of)

	b.sends(rollout.Message{Revision: 2, Proxies: []rollout.Proxy{refusing(2, 2, 1, "old")}})
	told := b.db.Refused("SELECT mesh.wait(2, timeout => '0')")
	require.Contains(t, told.Message, "shop/pay runs 1 and refuses 0.0.0.0_80: no such filter; it was made from VirtualService default/old, spec.http[0], which "+list[0].Author+" changed in revision 1")
	b.keeper.Close(t.Context())
	require.Empty(t, storetest.Collect[string](b.db, "SELECT proxy FROM mesh.refusals"))
}

func TestTheLastChangeOfAProxyHasATime(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ends := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	cart := of(1, "cart")
	cart.CertificateEnds = &ends
	b.sends(rollout.Message{Revision: 2, Proxies: []rollout.Proxy{cart, of(2, "pay")}, Times: &rollout.Times{Streams: []uint64{9, 1}, Took: []uint64{7, 1500}}})
	list, err := rollout.New(b.store).List(t.Context(), rollout.Filter{})
	require.NoError(t, err)
	require.Len(t, list, 2)
	require.Equal(t, 1500*time.Microsecond, *list[0].Took)
	require.True(t, ends.Equal(*list[0].CertificateEnds))
	require.Nil(t, list[1].Took)
	require.Nil(t, list[1].CertificateEnds)
	b.sends(rollout.Message{Revision: 3})
	require.Equal(t, "00:00:00.0015", storetest.Value[string](b.db, "SELECT took::text FROM mesh.proxies WHERE proxy = 'cart'"))
}

func TestAKindIsNamedAsPeopleDo(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.db.Put("web", "web.example")
	for _, word := range []string{"VirtualService", "virtualservices", "vs", "VS", "virtualservice.networking.istio.io"} {
		require.Equal(t, int64(1), storetest.Value[int64](b.db, "SELECT count(*) FROM mesh.status_of($1, 'default', 'web')", word), word)
	}
	for _, k := range kinds.All() {
		for _, word := range append([]string{k.Name, k.Plural}, k.ShortNames...) {
			named, err := kinds.ByName(word)
			require.NoError(t, err)
			require.Equal(t, named.Name+"."+named.Group, storetest.Value[string](b.db, "SELECT n.kind || '.' || n.api_group FROM mesh_internal.named_kind($1) n", word), word)
		}
	}
	refused := b.db.Refused("SELECT mesh.runs('virtualservce', 'default', 'web')")
	require.Equal(t, []string{"MS002", `unknown kind "virtualservce"`}, []string{refused.Code, refused.Message})
	for _, call := range []string{"runs", "status_of"} {
		require.Equal(t, "there is no VirtualService default/none that you can read", b.db.Refused("SELECT mesh."+call+"('vs', 'default', 'none')").Message)
	}
}
