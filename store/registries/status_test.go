package registries_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/storetest"
	"github.com/pgmesh/pgmesh/store/registries"
	"github.com/pgmesh/pgmesh/store/rollout"
)

// route is a VirtualService for a host that leads to another.
func route(name, version, to string) registries.Entry {
	spec := map[string]any{"hosts": []string{name + ".example.com"}, "http": []any{map[string]any{"route": []any{map[string]any{"destination": map[string]string{"host": to}}}}}}
	return configuration("VirtualService", name, version, spec)
}

func configuration(kind, name, version string, spec map[string]any) registries.Entry {
	text, err := json.Marshal(spec)
	if err != nil {
		panic(err) // of a test
	}
	return registries.Entry{Key: registries.Key{Kind: kind, Group: "networking.istio.io", Namespace: "default", Name: name}, Version: version, Spec: text}
}

func of(e registries.Entry) rollout.Resource {
	return rollout.Resource{Group: e.Group, Kind: e.Kind, Namespace: e.Namespace, Name: e.Name}
}

// concerns has a discovery report that a resource concerns all its proxies.
func concerns(all ...registries.Entry) (to []rollout.Audience) {
	for _, e := range all {
		to = append(to, rollout.Audience{Resource: of(e), Everyone: true})
	}
	return to
}

func brought(e registries.Entry, push uint64) rollout.Version {
	return rollout.Version{Resource: of(e), Version: e.Version, Push: push}
}

// statuses are the conditions of each resource as mesh.resource_status has them.
func (b *bench) statuses() []string {
	b.t.Helper()
	return storetest.Collect[string](b.db, `SELECT concat_ws(' ', kind, name, origin, observed_revision, running || '/' || concerned,
		(SELECT string_agg(concat(c ->> 'type', '=', c ->> 'status', ':', c ->> 'reason'), ' ') FROM jsonb_array_elements(conditions) c)) FROM mesh.resource_status ORDER BY kind, name`)
}

// written are the conditions of each resource as they are written to the registry.
func (b *bench) written() (lines []string) {
	b.t.Helper()
	list, err := b.mirror.Statuses(b.t.Context(), consul.Name)
	require.NoError(b.t, err)
	for _, s := range list {
		line := []string{s.Name, s.Version}
		for _, c := range s.Conditions {
			line = append(line, fmt.Sprintf("%s=%s:%s", c.Type, c.Status, c.Reason))
		}
		lines = append(lines, strings.Join(line, " "))
	}
	return lines
}

func TestARegistrysResourceRunsWhereItsVersionCame(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	one := route("one", "v1", "web.example.com")
	b.writes(registries.Changes{Entries: []registries.Entry{web("s1", "10.0.0.1"), one}})
	require.Equal(t, []string{
		"ServiceEntry consul.web consul 0/0 Accepted=True:Accepted Programmed=Unknown:NotReported",
		"VirtualService one consul 0/0 Accepted=True:Accepted ResolvedRefs=True:ResolvedRefs Programmed=Unknown:NotReported",
	}, b.statuses())

	report, err := b.keeper.Begin(t.Context(), "eu")
	require.NoError(t, err)
	sends := func(number int64, m rollout.Message) {
		m.Number = number
		require.NoError(t, b.keeper.Report(t.Context(), report, m))
	}
	proxy := func(stream uint64) rollout.Proxy {
		name := fmt.Sprint("p", stream)
		return rollout.Proxy{Stream: stream, State: rollout.Synced, Description: &rollout.Description{Node: name, Proxy: name, Namespace: "default"}}
	}
	programmed := func() string {
		t.Helper()
		return storetest.Value[string](b.db, `SELECT concat_ws(' ', running || '/' || concerned, c ->> 'status', c ->> 'reason', (SELECT string_agg(proxy, ',' ORDER BY proxy) FROM mesh.runs('vs', 'default', 'one')))
			FROM mesh.status_of('vs', 'default', 'one'), jsonb_array_elements(conditions) c WHERE c ->> 'type' = 'Programmed'`)
	}
	sends(1, rollout.Message{Proxies: []rollout.Proxy{proxy(1), proxy(2)}, Audiences: concerns(one)})
	require.Equal(t, "0/2 Unknown NotReported", programmed(), "a discovery that does not tell of versions")
	sends(2, rollout.Message{Push: 4, Versions: []rollout.Version{brought(one, 5)}})
	require.Equal(t, "0/2 False Pending", programmed(), "the push before is what they run")
	sends(3, rollout.Message{Push: 5})
	require.Equal(t, "2/2 True Programmed p1,p2", programmed())
	sends(4, rollout.Message{Push: 6, Proxies: []rollout.Proxy{{Stream: 1, State: rollout.Silent, Push: 4}}})
	require.Equal(t, "1/2 False Pending p2", programmed())
	sends(5, rollout.Message{Push: 6, Proxies: []rollout.Proxy{{Stream: 1, State: rollout.Refused, Push: 5}}})
	require.Equal(t, "2/2 True Programmed p1,p2", programmed(), "what it refuses was not made from this")

	one.Version = "v2"
	b.writes(registries.Changes{Entries: []registries.Entry{one}})
	require.Equal(t, "0/2 False Pending", programmed(), "they run the version before")
	sends(6, rollout.Message{Push: 7, Versions: []rollout.Version{brought(one, 7)}, Proxies: []rollout.Proxy{{Stream: 1, State: rollout.Synced}}})
	require.Equal(t, "2/2 True Programmed p1,p2", programmed())
	require.Equal(t, []string{"one v2 Accepted=True:Accepted ResolvedRefs=True:ResolvedRefs Programmed=True:Programmed"}, b.written(), "services are left out")
	require.Error(t, b.keeper.Report(t.Context(), report, rollout.Message{Number: 7, Push: 1 << 63}))
}

func TestWhatIsWrongWithARegistrysConfigurationIsInItsConditions(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	gate := configuration("VirtualService", "gate", "v1", map[string]any{"hosts": []string{"gate.example.com"}, "gateways": []string{"edge/none"}})
	subset := route("subset", "v1", "web.example.com")
	subset.Spec = json.RawMessage(strings.Replace(string(subset.Spec), `"host":"web.example.com"`, `"host":"web.example.com","subset":"v9"`, 1))
	bad := configuration("VirtualService", "bad", "v1", map[string]any{"hosts": []string{"bad.example.com"}})
	all := registries.Changes{Entries: []registries.Entry{web("s1", "10.0.0.1"), route("lost", "v1", "nowhere.example.com"), gate, subset, bad}}
	all.AllBad, all.Bad = 1, []registries.Bad{{Key: &bad.Key, Entry: "virtualservices/bad", Reason: "no such field"}}
	b.writes(all)
	require.Equal(t, []string{
		"bad v1 Accepted=False:Invalid ResolvedRefs=True:ResolvedRefs Programmed=Unknown:NotReported",
		"gate v1 Accepted=True:Accepted ResolvedRefs=False:UnknownGateway Programmed=Unknown:NotReported",
		"lost v1 Accepted=True:Accepted ResolvedRefs=False:UnknownHost Programmed=Unknown:NotReported",
		"subset v1 Accepted=True:Accepted ResolvedRefs=False:UnknownSubset Programmed=Unknown:NotReported",
	}, b.written())
	require.Equal(t, []string{"gate unknown-gateway spec.gateways[0]", "lost unknown-host spec.http[0].route[0].destination.host", "subset unknown-subset spec.http[0].route[0].destination.subset"},
		storetest.Collect[string](b.db, "SELECT concat_ws(' ', name, code, path) FROM mesh.problems WHERE code LIKE 'unknown-%' ORDER BY 1"))

	// What they name comes, in the registry and in the database.
	rule := configuration("DestinationRule", "rule", "v1", map[string]any{"host": "web.example.com", "subsets": []any{map[string]string{"name": "v9"}}})
	edge := configuration("Gateway", "none", "v1", map[string]any{"servers": []any{}})
	edge.Namespace = "edge"
	b.db.Exec(`INSERT INTO mesh.service_entries (namespace, name, spec) VALUES ('default', 'nowhere', '{"hosts": ["nowhere.example.com"], "ports": [{"number": 80, "name": "http"}], "resolution": "DNS"}')`)
	b.writes(registries.Changes{Entries: []registries.Entry{rule, edge}})
	require.Empty(t, storetest.Collect[string](b.db, "SELECT name FROM mesh.problems WHERE code LIKE 'unknown-%'"))
	b.writes(registries.Changes{Gone: []registries.Key{rule.Key}})
	require.Equal(t, []string{"subset"}, storetest.Collect[string](b.db, "SELECT name FROM mesh.problems WHERE code LIKE 'unknown-%'"))
}

func TestWhatTheDatabaseHidesIsNotAccepted(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.writes(registries.Changes{Entries: []registries.Entry{route("one", "v1", "nowhere.example.com")}})
	b.db.Put("one", "elsewhere.example.com")
	require.Equal(t, []string{"one v1 Accepted=False:Hidden Programmed=False:Hidden"}, b.written())
	shown := b.statuses()
	require.Len(t, shown, 1)
	require.Contains(t, shown[0], "VirtualService one 1 0/0 Accepted=True", "the row is the database's")
	require.Empty(t, storetest.Collect[string](b.db, "SELECT message FROM mesh.problems WHERE message LIKE '%nowhere%'"), "what the other names is no problem of it")

	zoo := registries.Registry{Name: "zoo", Rank: 2}
	b.claims(b.keeper, zoo, true)
	mine, err := b.mirror.Write(t.Context(), b.keeper, zoo.Name, registries.Changes{State: registries.State{Read: true}, Entries: []registries.Entry{route("one", "v1", "x.example.com")}})
	require.NoError(t, err)
	require.True(t, mine)
	b.db.Exec("DELETE FROM mesh.resources WHERE name = 'one'")
	list, err := b.mirror.Statuses(t.Context(), zoo.Name)
	require.NoError(t, err)
	require.Equal(t, "the registry consul has one of this kind and name, which counts", list[0].Conditions[0].Message)
	require.Equal(t, []string{"one v1 Accepted=True:Accepted ResolvedRefs=False:UnknownHost Programmed=Unknown:NotReported"}, b.written())
}

// A registry's route stands at its parents as the mesh's own do, and not while that hides it.
func TestARegistrysRoutesAreAttached(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	shop := configuration("HTTPRoute", "shop", "v1", map[string]any{"parentRefs": []any{map[string]any{"name": "edge"}}})
	shop.Group = "gateway.networking.k8s.io"
	b.writes(registries.Changes{Entries: []registries.Entry{shop}})
	attached := func() []string {
		b.t.Helper()
		return storetest.Collect[string](b.db, "SELECT concat_ws(' ', name, parent_name, listeners, accepted, origin) FROM mesh.attached_routes")
	}
	require.Equal(t, []string{"shop edge consul"}, attached())
	report, err := b.keeper.Begin(t.Context(), "eu")
	require.NoError(t, err)
	const status = `{"parents": [{"parentRef": {"name": "edge"}, "listeners": ["http"], "conditions": [{"type": "Accepted", "status": "True", "reason": "Accepted", "message": ""}]}]}`
	require.NoError(t, b.keeper.Report(t.Context(), report, rollout.Message{Number: 1, Versions: []rollout.Version{brought(shop, 1)}, Statuses: []rollout.Decided{{Resource: of(shop), Status: status}}}))
	require.Equal(t, []string{"shop edge {http} t consul"}, attached())
	b.db.Exec(`INSERT INTO mesh.http_routes (name, parent_refs) VALUES ('shop', '[{"name": "other"}]')`)
	require.Equal(t, []string{"shop other"}, attached())
	require.Zero(t, storetest.Value[int](b.db, "SELECT count(*) FROM mesh.http_route_rules"), "the parts of a registry's are changed there")
}

func TestMovesTellOfReportsAndRevisions(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	moves := func() int64 {
		n, err := b.mirror.Moves(t.Context())
		require.NoError(t, err)
		return n
	}
	before := moves()
	b.db.Put("one", "one.example.com")
	after := moves()
	require.NotEqual(t, before, after)
	report, err := b.keeper.Begin(t.Context(), "eu")
	require.NoError(t, err)
	require.NoError(t, b.keeper.Report(t.Context(), report, rollout.Message{Number: 1}))
	reported := moves()
	require.NotEqual(t, after, reported)
	require.Equal(t, reported, moves())
}
