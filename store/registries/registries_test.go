package registries_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/storetest"
	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/registries"
	"github.com/pgmesh/pgmesh/store/rollout"
)

// bench is a database with a keeper that mirrors the registry consul.
type bench struct {
	t      *testing.T
	db     storetest.Session
	store  *store.Store
	mirror *registries.Store
	keeper *rollout.Keeper
}

var consul = registries.Registry{Name: "consul", Rank: 1}

func newBench(t *testing.T) *bench {
	t.Helper()
	s, url := storetest.Open(t)
	b := &bench{t: t, db: storetest.Connect(t, url), store: s, mirror: registries.New(s)}
	b.keeper = b.keep("mcp")
	b.claims(b.keeper, consul, true)
	return b
}

func (b *bench) keep(server string) *rollout.Keeper {
	b.t.Helper()
	k, err := rollout.New(b.store).Keep(b.t.Context(), server)
	require.NoError(b.t, err)
	b.t.Cleanup(func() { k.Close(b.t.Context()) })
	return k
}

func (b *bench) claims(k *rollout.Keeper, r registries.Registry, read bool) {
	b.t.Helper()
	mine, err := b.mirror.Claim(b.t.Context(), k, r, read)
	require.NoError(b.t, err)
	require.True(b.t, mine)
}

func (b *bench) isRefused(k *rollout.Keeper, r registries.Registry, read bool) {
	b.t.Helper()
	mine, err := b.mirror.Claim(b.t.Context(), k, r, read)
	require.NoError(b.t, err)
	require.False(b.t, mine)
}

func (b *bench) writes(c registries.Changes) {
	b.t.Helper()
	c.Read = true
	mine, err := b.mirror.Write(b.t.Context(), b.keeper, consul.Name, c)
	require.NoError(b.t, err)
	require.True(b.t, mine)
}

// web is a service with instances at these addresses, the last of which is unhealthy.
func web(version string, addresses ...string) registries.Entry {
	return entry("consul.web", version, "web.example.com", addresses...)
}

func entry(name, version, host string, addresses ...string) registries.Entry {
	endpoints := []map[string]any{}
	for i, a := range addresses {
		e := map[string]any{"address": a, "weight": 3, "locality": "eu/a", "network": "n1", "serviceAccount": "web", "labels": map[string]string{"version": "v1"}}
		if i == len(addresses)-1 {
			e["labels"] = map[string]string{"version": "v1", "mesh.pgmesh.io/health": "unhealthy"}
		}
		endpoints = append(endpoints, e)
	}
	spec, err := json.Marshal(map[string]any{
		"hosts": []string{host}, "location": "MESH_INTERNAL", "resolution": "STATIC", "endpoints": endpoints,
		"ports": []map[string]any{{"name": "http", "number": 80, "protocol": "http", "targetPort": 8080}},
	})
	if err != nil {
		panic(err)
	}
	return registries.Entry{
		Key:     registries.Key{Kind: "ServiceEntry", Group: "networking.istio.io", Namespace: "shop", Name: name},
		Version: version, Spec: spec, Annotations: map[string]string{"pgmesh.io/origin-entry": "service web"},
	}
}

func (b *bench) shows(view string, lines ...string) {
	b.t.Helper()
	require.Equal(b.t, append([]string{}, lines...), append([]string{}, storetest.Collect[string](b.db, view)...))
}

const (
	services  = `SELECT concat_ws(' ', host, namespace || '/' || name, coalesce(origin, '-'), in_effect, endpoints, healthy, stale_since IS NOT NULL) FROM mesh.services ORDER BY 1`
	endpoints = `SELECT concat_ws(' ', host, coalesce(origin, '-'), in_effect, address, ports, weight, locality, network, labels, health, service_account, workload) FROM mesh.endpoints ORDER BY 1`
)

func TestWhatARegistryHasShows(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.writes(registries.Changes{Entries: []registries.Entry{web("1", "10.0.0.1", "10.0.0.2")}})
	b.shows(services, "web.example.com shop/consul.web consul t 2 1 f")
	b.shows(endpoints,
		`web.example.com consul t 10.0.0.1 {"http": 8080} 3 eu/a n1 {"version": "v1", "topology.istio.io/network": "n1", "topology.kubernetes.io/zone": "a", "topology.kubernetes.io/region": "eu"} healthy web`,
		`web.example.com consul t 10.0.0.2 {"http": 8080} 3 eu/a n1 {"version": "v1", "topology.istio.io/network": "n1", "topology.kubernetes.io/zone": "a", "topology.kubernetes.io/region": "eu"} unhealthy web`)
	b.shows("SELECT entry || ports || location || resolution FROM mesh.services WHERE host = 'web.example.com'",
		`service web[{"name": "http", "number": 80, "target": 8080, "protocol": "HTTP"}]MESH_INTERNALSTATIC`)
	b.shows("SELECT concat_ws(' ', name, rank, server, state, resources, bad_entries) FROM mesh.registries", "consul 1 mcp current 1 0")
	require.Equal(t, int64(0), b.db.Newest(), "nothing of it is a revision")
	require.Zero(t, storetest.Value[int64](b.db, "SELECT count(*) FROM mesh.history"))

	b.writes(registries.Changes{Gone: []registries.Key{web("1").Key}})
	b.shows(services)
}

// Whatever is kept in the database is there, too, with the workloads that entries select.
func TestServicesOfTheMeshsOwnShow(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.db.Exec(`INSERT INTO mesh.resources (kind, namespace, name, labels, annotations, spec) VALUES
		('ServiceEntry', 'shop', 'cart', '{}', '{}', '{"hosts": ["Cart.example.com"], "location": 1, "resolution": "STATIC", "workload_selector": {"labels": {"app": "cart"}},
			"ports": [{"name": "http", "number": 80, "protocol": "HTTP"}, {"name": "grpc", "number": "81", "protocol": "GRPC", "target_port": 9000}]}'),
		('WorkloadEntry', 'shop', 'one', '{}', '{}', '{"address": "10.0.1.1", "labels": {"app": "cart"}, "ports": {"http": 8081}, "service_account": "cart"}'),
		('WorkloadEntry', 'shop', 'two', '{"app": "cart"}', '{"mesh.pgmesh.io/health": "unhealthy: 503"}', '{"address": "10.0.1.2"}'),
		('WorkloadEntry', 'shop', 'three', '{"topology.istio.io/network": "east"}', '{}', '{"address": "10.0.1.4", "locality": "eu/a"}'),
		('WorkloadEntry', 'shop', 'four', '{}', '{}', '{"address": "10.0.1.5", "network": "east"}'),
		('ServiceEntry', 'shop', 'to-east', '{}', '{}', '{"hosts": ["to-east.example.com"], "resolution": "STATIC", "workloadSelector": {"labels": {"topology.istio.io/network": "east"}},
			"ports": [{"name": "tls", "number": 15443, "protocol": "TLS"}]}'),
		('WorkloadEntry', 'shop', 'named', '{"app": "cart"}', '{}', '{"address": "two.example.com"}'),
		('WorkloadEntry', 'web', 'other', '{"app": "cart"}', '{}', '{"address": "10.0.1.3"}'),
		('ServiceEntry', 'web', 'pay', '{}', '{}', '{"hosts": ["pay.example.com"], "resolution": "DNS", "ports": [{"name": "tls", "number": 443, "protocol": "TLS"}]}')`)
	b.shows(services, "cart.example.com shop/cart - t 2 1 f", "pay.example.com web/pay - t 1 1 f", "to-east.example.com shop/to-east - t 2 2 f")
	b.shows(endpoints,
		`cart.example.com - t 10.0.1.1 {"grpc": 9000, "http": 8081} 1   {"app": "cart"} healthy cart one`,
		`cart.example.com - t 10.0.1.2 {"grpc": 9000, "http": 80} 1   {"app": "cart"} unhealthy  two`,
		`pay.example.com - t pay.example.com {"tls": 443} 1   {} healthy `,
		`to-east.example.com - t 10.0.1.4 {"tls": 15443} 1 eu/a east {"topology.istio.io/network": "east", "topology.kubernetes.io/zone": "a", "topology.kubernetes.io/region": "eu"} healthy  three`,
		`to-east.example.com - t 10.0.1.5 {"tls": 15443} 1  east {"topology.istio.io/network": "east"} healthy  four`)
	b.shows("SELECT location FROM mesh.services ORDER BY host", "MESH_INTERNAL", "MESH_EXTERNAL", "MESH_EXTERNAL")
}

// The database counts before registries, and these in their order.
func TestOriginsCountInTheirOrder(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	other := registries.Registry{Name: "zoo", Rank: 2}
	b.claims(b.keeper, other, true)
	later := entry("zoo.web", "1", "web.example.com", "10.0.0.9")
	mine, err := b.mirror.Write(t.Context(), b.keeper, "zoo", registries.Changes{Entries: []registries.Entry{later}})
	require.NoError(t, err)
	require.True(t, mine)
	b.writes(registries.Changes{Entries: []registries.Entry{web("1", "10.0.0.1")}})
	b.shows("SELECT name || in_effect FROM mesh.services ORDER BY 1", "consul.webtrue", "zoo.webfalse")
	b.shows("SELECT address FROM mesh.endpoints WHERE host = 'web.example.com' AND in_effect", "10.0.0.1")
	b.db.Exec(`INSERT INTO mesh.resources (kind, namespace, name, spec) VALUES ('ServiceEntry', 'shop', 'consul.web', '{"hosts": ["ours.example.com"], "ports": [{"name": "http", "number": 80, "protocol": "HTTP"}]}')`)
	b.shows("SELECT host || coalesce(origin, '-') || in_effect FROM mesh.services ORDER BY 1", "ours.example.com-true", "web.example.comzootrue")
}

// Registries of a set have a service together, whatever stands between them.
func TestASetCountsTogether(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for i, name := range []string{"alone", "west"} {
		b.claims(b.keeper, registries.Registry{Name: name, Rank: i + 2}, true)
		e := entry(name+".web", "1", "web.example.com", "10.0.0.9")
		if name == "west" {
			e.Annotations["pgmesh.io/origin-set"] = "shops"
		}
		mine, err := b.mirror.Write(t.Context(), b.keeper, name, registries.Changes{Entries: []registries.Entry{e}})
		require.NoError(t, err)
		require.True(t, mine)
	}
	first := web("1", "10.0.0.1")
	first.Annotations["pgmesh.io/origin-set"] = "shops"
	b.writes(registries.Changes{Entries: []registries.Entry{first}})
	b.shows("SELECT name || in_effect FROM mesh.services ORDER BY 1", "alone.webfalse", "consul.webtrue", "west.webtrue")
	b.shows("SELECT name FROM mesh_internal.registry_services('web.example.com') ORDER BY 1", "consul.web", "west.web")
}

// A Service of Kubernetes has the workloads that its annotation selects beside its endpoints.
func TestWhatIsSelectedBesideEndpointsShows(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	e := web("1", "10.0.0.1")
	e.Annotations["mesh.pgmesh.io/workload-selector"] = "app=web,tier="
	b.writes(registries.Changes{Entries: []registries.Entry{e}})
	b.db.Exec(`INSERT INTO mesh.resources (kind, namespace, name, spec) VALUES
		('WorkloadEntry', 'shop', 'one', '{"address": "10.0.1.1", "labels": {"app": "web", "tier": ""}}'),
		('WorkloadEntry', 'shop', 'two', '{"address": "10.0.1.2", "labels": {"app": "web"}}')`)
	const addresses = "SELECT address || coalesce(' of ' || workload, '') FROM mesh.endpoints ORDER BY 1"
	b.shows(addresses, "10.0.0.1", "10.0.1.1 of one")
	b.shows(`SELECT mesh_internal.serve_subset('web.example.com', '{"tier": ""}')::text`, "true")
	e.Annotations["mesh.pgmesh.io/workload-selector"], e.Version = "app", "2"
	b.writes(registries.Changes{Entries: []registries.Entry{e}})
	b.shows(addresses, "10.0.0.1")
}

// A change of one service writes one row, and what is as it was writes none.
func TestWhatIsAsItWasIsNotWritten(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var all []registries.Entry
	for i := range 50 {
		all = append(all, entry(fmt.Sprint("consul.s", i), "1", fmt.Sprint("s", i, ".example.com"), "10.0.0.1"))
	}
	b.writes(registries.Changes{Entries: all})
	const rows = "SELECT e.name || ' ' || e.xmin FROM mesh_internal.registry_entries e ORDER BY 1"
	const registry = "SELECT xmin::text FROM mesh_internal.registries"
	before, was := storetest.Collect[string](b.db, rows), storetest.Value[string](b.db, registry)
	b.writes(registries.Changes{Entries: all})
	require.Equal(t, before, storetest.Collect[string](b.db, rows))

	all[7] = entry("consul.s7", "2", "s7.example.com", "10.0.0.2")
	b.writes(registries.Changes{Entries: all})
	changed := 0
	for i, row := range storetest.Collect[string](b.db, rows) {
		if row != before[i] {
			changed++
			require.Contains(t, row, "consul.s7 ")
		}
	}
	require.Equal(t, 1, changed)
	require.Equal(t, was, storetest.Value[string](b.db, registry))
	b.claims(b.keeper, consul, true)
	require.Equal(t, was, storetest.Value[string](b.db, registry), "nor is a claim that stands")
}

func TestARegistryThatIsAwayIsStale(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	since := time.Now().Add(-time.Hour).Truncate(time.Second)
	b.writes(registries.Changes{
		Entries: []registries.Entry{web("1", "10.0.0.1")},
		State:   registries.State{Stale: &since, Reason: "connection \x00 refused"},
	})
	require.True(t, since.Equal(storetest.Value[time.Time](b.db, "SELECT stale_since FROM mesh.services")))
	b.shows("SELECT state || ': ' || reason FROM mesh.registries", "stale: connection \uFFFD refused")
	b.shows("SELECT severity || ' ' || name FROM mesh.problems WHERE code = 'stale-registry' AND message LIKE '%as it was at 20%: connection%'", "warning consul")
	b.writes(registries.Changes{})
	b.shows("SELECT state FROM mesh.registries WHERE stale_since IS NULL", "current")
	b.shows("SELECT name FROM mesh.problems WHERE code = 'stale-registry'")
}

// One server mirrors a registry. When it is gone, what it has written stays, is stale, and another
// goes on with it.
func TestOneServerMirrorsARegistry(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.writes(registries.Changes{Entries: []registries.Entry{web("1", "10.0.0.1")}})
	second := b.keep("second")
	b.isRefused(second, consul, true)
	mine, err := b.mirror.Write(t.Context(), second, consul.Name, registries.Changes{Gone: []registries.Key{web("1").Key}})
	require.NoError(t, err)
	require.False(t, mine, "who does not mirror it writes nothing")
	b.keeper.Close(t.Context())
	b.shows(services, "web.example.com shop/consul.web consul t 1 0 t")
	b.shows("SELECT state || ': ' || reason FROM mesh.registries", "left: no server tells of it any more")

	unread := b.keep("unread")
	b.claims(unread, consul, false)
	b.shows("SELECT state || server FROM mesh.registries WHERE stale_since IS NOT NULL", "unreadunread")
	b.isRefused(b.keep("another"), consul, false)
	b.claims(second, consul, true)
	b.isRefused(unread, consul, false)
	b.shows("SELECT state || server FROM mesh.registries", "currentsecond")
	require.NoError(t, b.mirror.Leave(t.Context(), second))
	b.claims(unread, consul, true)
	listed, err := b.mirror.Entries(t.Context(), consul.Name, registries.Key{}, 10)
	require.NoError(t, err)
	require.Equal(t, []registries.Mirrored{{Key: web("1").Key, Version: "1"}}, listed)
	listed, err = b.mirror.Entries(t.Context(), consul.Name, web("1").Key, 10)
	require.NoError(t, err)
	require.Empty(t, listed)
}

func TestARegistryThatNobodyNamesGoes(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.writes(registries.Changes{Entries: []registries.Entry{web("1", "10.0.0.1")}})
	sweep := func() int64 {
		removed, err := rollout.New(b.store).Sweep(t.Context())
		require.NoError(t, err)
		return removed
	}
	require.Zero(t, sweep())
	b.keeper.Close(t.Context())
	sweep()
	b.shows(services, "web.example.com shop/consul.web consul t 1 0 t")
	b.db.Exec("UPDATE mesh_internal.registries SET ended = now() - interval '61 minutes'")
	b.shows(services)
	b.shows("SELECT name FROM mesh.registries")
	require.Equal(t, int64(2), sweep())
	require.Zero(t, storetest.Value[int64](b.db, "SELECT count(*) FROM mesh_internal.registries"))
}

func TestEntriesThatCannotBeUsedAreProblems(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	key := web("1").Key
	b.writes(registries.Changes{
		Entries: []registries.Entry{web("1", "10.0.0.1")},
		State:   registries.State{AllBad: 7, Bad: []registries.Bad{{Entry: "service x", Reason: "no port"}, {Key: &key, Entry: "ServiceEntry shop/consul.web", Reason: "not a host"}}},
	})
	b.shows("SELECT concat_ws(' ', severity, kind, namespace || '/' || name, message, hint) FROM mesh.problems WHERE code = 'bad-entry' ORDER BY 1",
		"error Registry /consul the registry consul has an entry that cannot be used: service x: no port correct it in the registry; until then its last good state stays",
		"error ServiceEntry shop/consul.web the registry consul has an entry that cannot be used: ServiceEntry shop/consul.web: not a host correct it in the registry; until then its last good state stays")
	b.shows("SELECT bad_entries::text FROM mesh.registries", "7")
}

// What discoveries find wrong with a registry's resource is a problem of it.
func TestDiscoverysFindingsOfRegistriesShow(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.writes(registries.Changes{Entries: []registries.Entry{web("1", "10.0.0.1")}})
	id, err := b.keeper.Begin(t.Context(), "eu")
	require.NoError(t, err)
	of := func(name string) rollout.Problem {
		return rollout.Problem{Resource: rollout.Resource{Group: "networking.istio.io", Kind: "ServiceEntry", Namespace: "shop", Name: name}, Path: "spec.hosts", Code: "left-out", Message: "it counts before"}
	}
	require.NoError(t, b.keeper.Report(t.Context(), id, rollout.Message{Number: 1, Revision: 1, Problems: &[]rollout.Problem{of("consul.web"), of("consul.gone")}}))
	b.shows("SELECT concat_ws(' ', severity, code, name, path) FROM mesh.problems", "error left-out consul.web spec.hosts")
}

// A route may lead to what a registry has, as far as that is for the namespace.
func TestRoutesMayLeadToWhatRegistriesHave(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const unknown = "SELECT message FROM mesh.problems WHERE code = 'unknown-host'"
	b.db.Put("route", "web.example.com")
	b.shows(unknown, `no ServiceEntry that namespace "default" can see has the host "web.example.com"`)
	b.writes(registries.Changes{Entries: []registries.Entry{web("1", "10.0.0.1")}})
	b.shows(unknown)
	b.db.Exec("INSERT INTO mesh.settings (name, value) VALUES ('strict_references', 'on')")
	b.db.Exec(`INSERT INTO mesh.resources (kind, name, spec) VALUES ('VirtualService', 'another', '{"hosts": ["other.example.com"], "http": [{"route": [{"destination": {"host": "Web.example.com"}}]}]}')`)
	refused := b.db.Refused("INSERT INTO mesh.resources (kind, name, spec) VALUES ('VirtualService', 'third', $1)", storetest.VirtualService("wbe.example.com"))
	require.Equal(t, "23503", refused.Code)
	private := web("2", "10.0.0.1")
	private.Spec = json.RawMessage(`{"hosts": ["web.example.com"], "exportTo": ["."], "ports": [{"number": 80, "name": "http", "protocol": "HTTP"}]}`)
	b.writes(registries.Changes{Entries: []registries.Entry{private}})
	b.shows(unknown+" LIMIT 1", `no ServiceEntry that namespace "default" can see has the host "web.example.com"`)
}

// A tenant sees the services of its namespaces alone, and changes none.
func TestTenantsSeeTheirNamespaces(t *testing.T) {
	t.Parallel()
	y := storetest.NewTenancy(t)
	s := storetest.OpenURL(t, y.Owner.Conn.Config().ConnString())
	b := &bench{t: t, db: y.Owner, store: s, mirror: registries.New(s)}
	b.keeper = b.keep("mcp")
	b.claims(b.keeper, consul, true)
	stale := time.Now()
	b.writes(registries.Changes{
		Entries: []registries.Entry{web("1", "10.0.0.1")},
		State:   registries.State{Stale: &stale, Reason: "a host of the operator's", AllBad: 1, Bad: []registries.Bad{{Entry: "x", Reason: "y"}}},
	})
	within, without := y.Tenant("within", [2]string{"shop", "write"}), y.Tenant("without", [2]string{"web", "write"})
	require.Equal(t, []string{"web.example.com"}, storetest.Collect[string](within, "SELECT host FROM mesh.services"))
	require.Equal(t, []string{"10.0.0.1"}, storetest.Collect[string](within, "SELECT address FROM mesh.endpoints"))
	require.Equal(t, []string{"stale 0"}, storetest.Collect[string](within, "SELECT concat_ws(' ', state, nullif(reason, ''), bad_entries) FROM mesh.registries"))
	require.Empty(t, storetest.Collect[string](within, "SELECT message FROM mesh.problems WHERE code IN ('bad-entry', 'stale-registry')"))
	for _, view := range []string{"services", "endpoints", "registries"} {
		require.Zero(t, storetest.Value[int64](without, "SELECT count(*) FROM mesh."+view))
	}
	within.Refused("DELETE FROM mesh.services WHERE host = 'web.example.com'")
	y.Owner.Refused("DELETE FROM mesh.services WHERE host = 'web.example.com'")
	within.Refused("SELECT mesh_internal.claim_registry(1, 'consul', 1, true)")
	within.Refused("SELECT * FROM mesh_internal.registry_entries")
	within.Refused("UPDATE mesh_internal.registry_entries SET spec = '{}'")
}
