package registries_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/storetest"
	"github.com/pgmesh/pgmesh/store/registries"
)

// resource is an entry of any kind in the namespace shop.
func resource(kind, group, name, spec string) registries.Entry {
	return registries.Entry{Key: registries.Key{Kind: kind, Group: group, Namespace: "shop", Name: name}, Version: spec, Spec: json.RawMessage(spec)}
}

func service(name, spec string) registries.Entry {
	return resource("ServiceEntry", "networking.istio.io", name, spec)
}

// writesTo has the keeper write entries of another registry than consul.
func (b *bench) writesTo(r registries.Registry, entries ...registries.Entry) {
	b.t.Helper()
	b.claims(b.keeper, r, true)
	mine, err := b.mirror.Write(b.t.Context(), b.keeper, r.Name, registries.Changes{State: registries.State{Read: true}, Entries: entries})
	require.NoError(b.t, err)
	require.True(b.t, mine)
}

// finds compares the problems with lines: code, resource, path and origin.
func (b *bench) finds(lines ...string) {
	b.t.Helper()
	b.shows("SELECT concat_ws(' ', code, namespace || '/' || name, path, origin) FROM mesh.problems ORDER BY 1", lines...)
}

const (
	networking = "networking.istio.io"
	twoPorts   = `"ports": [{"name": "http", "number": 80, "protocol": "HTTP"}, {"name": "grpc", "number": 81, "protocol": "GRPC"}]`
	onePort    = `"ports": [{"name": "http", "number": 80, "protocol": "HTTP"}]`
	serving    = `"resolution": "STATIC", "endpoints": [{"address": "10.0.0.1", "locality": "eu", "network": "east", "labels": {"app": "web", "version": "v1"}}]`
)

// route writes a route of the mesh's own to a destination.
func (b *bench) route(name, destination string) {
	b.t.Helper()
	b.db.Exec(`INSERT INTO mesh.resources (kind, namespace, name, spec) VALUES ('VirtualService', 'shop', $1, $2)`, name,
		json.RawMessage(fmt.Sprintf(`{"hosts": ["%s.test"], "http": [{"route": [{"destination": %s}]}]}`, name, destination)))
}

func TestPortsOfRegistriesAreKnown(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.writes(registries.Changes{Entries: []registries.Entry{
		service("consul.web", `{"hosts": ["WEB.example.com"], `+twoPorts+`, `+serving+`}`),
		service("consul.any", `{"hosts": ["any.example.com"], `+serving+`}`),
	}})
	b.route("right", `{"host": "Web.example.com", "port": {"number": 80}}`)
	b.route("wrong", `{"host": "web.EXAMPLE.com", "port": {"number": 99}}`)
	b.route("none", `{"host": "web.example.com"}`)
	b.route("any", `{"host": "any.example.com", "port": {"number": 99}}`)
	b.finds("ambiguous-port shop/none spec.http[0].route[0].destination", "unknown-port shop/wrong spec.http[0].route[0].destination.port.number")
	b.shows("SELECT hint FROM mesh.problems ORDER BY code", "set port.number to one of 80, 81", "its ports: 80, 81")

	// Between namespaces, each entry of a host may have some of its ports.
	b.db.Exec(`INSERT INTO mesh.resources (kind, namespace, name, spec) VALUES ('ServiceEntry', 'web', 'web', '{"hosts": ["web.example.com"], "ports": [{"name": "x", "number": 99, "protocol": "HTTP"}]}')`)
	b.finds()
}

// A commit is told of it, and refused where references are strict.
func TestCommitsAreToldOfPortsOfRegistries(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.writes(registries.Changes{Entries: []registries.Entry{service("consul.web", `{"hosts": ["web.example.com"], `+onePort+`}`)}})
	told := b.db.Notices(`INSERT INTO mesh.resources (kind, namespace, name, spec) VALUES ('VirtualService', 'shop', 'wrong',
		'{"hosts": ["x.test"], "http": [{"route": [{"destination": {"host": "web.example.com", "port": {"number": 99}}}]}]}')`)
	require.Equal(t, []string{`VirtualService shop/wrong: spec.http[0].route[0].destination.port.number: the host "web.example.com" has no port 99`}, told)
	b.db.Exec("INSERT INTO mesh.settings (name, value) VALUES ('strict_references', 'on')")
	b.route("right", `{"host": "web.example.com", "port": {"number": 80}}`)
	refused := b.db.Refused(`INSERT INTO mesh.resources (kind, namespace, name, spec) VALUES ('VirtualService', 'shop', 'again',
		'{"hosts": ["y.test"], "http": [{"route": [{"destination": {"host": "web.example.com", "port": {"number": 98}}}]}]}')`)
	require.Equal(t, "23503", refused.Code)
}

func TestSubsetsAndSelectorsChooseWhatRegistriesHave(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.writes(registries.Changes{Entries: []registries.Entry{
		service("consul.web", `{"hosts": ["web.example.com"], `+onePort+`, `+serving+`}`),
		service("consul.chosen", `{"hosts": ["chosen.example.com"], `+onePort+`, "resolution": "STATIC", "workloadSelector": {"labels": {"app": "cart"}}}`),
		resource("WorkloadEntry", networking, "cart-1", `{"address": "10.0.0.7", "labels": {"app": "cart", "version": "v2"}}`),
	}})
	b.db.Exec(`INSERT INTO mesh.resources (kind, namespace, name, spec) VALUES
		('DestinationRule', 'shop', 'web', '{"host": "Web.example.com", "subsets": [{"name": "one", "labels": {"version": "v1"}}, {"name": "nine", "labels": {"version": "v9"}}]}'),
		('DestinationRule', 'shop', 'chosen', '{"host": "chosen.example.com", "subsets": [{"name": "two", "labels": {"version": "v2"}}, {"name": "nine", "labels": {"version": "v9"}}]}'),
		('PeerAuthentication', 'shop', 'web', '{"selector": {"matchLabels": {"app": "web"}}}'),
		('PeerAuthentication', 'shop', 'cart', '{"selector": {"matchLabels": {"app": "cart"}}}'),
		('PeerAuthentication', 'shop', 'placed', '{"selector": {"matchLabels": {"topology.kubernetes.io/region": "eu", "topology.istio.io/network": "east"}}}'),
		('PeerAuthentication', 'shop', 'nobody', '{"selector": {"matchLabels": {"app": "web", "version": "v9"}}}'),
		('PeerAuthentication', 'bank', 'elsewhere', '{"selector": {"matchLabels": {"app": "web"}}}'),
		('PeerAuthentication', 'istio-system', 'everywhere', '{"selector": {"matchLabels": {"app": "web"}}}')`)
	b.db.Exec(`INSERT INTO mesh.resources (api_group, kind, namespace, name, spec) VALUES ('networking.istio.io', 'Gateway', 'edge', 'edge',
		'{"selector": {"app": "web"}, "servers": [{"port": {"number": 80, "name": "http", "protocol": "HTTP"}, "hosts": ["*"]}]}')`)
	want := []string{
		"empty-subset shop/chosen spec.subsets[1].labels", "empty-subset shop/web spec.subsets[1].labels",
		"selects-nothing bank/elsewhere spec.selector.matchLabels", "selects-nothing shop/nobody spec.selector.matchLabels",
	}
	b.finds(want...)
	b.keeper.Close(t.Context()) // what nobody keeps up counts as it was
	b.shows("SELECT concat_ws(' ', code, namespace || '/' || name, path) FROM mesh.problems WHERE code <> 'stale-registry' ORDER BY 1", want...)
}

// What another resource of its name hides has no effect, so nothing leads there, and nothing is wrong
// with it.
func TestHiddenEntriesServeNobody(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.writes(registries.Changes{Entries: []registries.Entry{
		service("consul.web", `{"hosts": ["web.example.com"], `+onePort+`, `+serving+`}`),
		resource("VirtualService", networking, "lost", `{"hosts": ["lost.test"], "http": [{"route": [{"destination": {"host": "nowhere.example.com"}}]}]}`),
	}})
	b.route("web", `{"host": "web.example.com", "port": {"number": 80}}`)
	b.db.Exec(`INSERT INTO mesh.resources (kind, namespace, name, spec) VALUES
		('DestinationRule', 'shop', 'web', '{"host": "web.example.com", "subsets": [{"name": "one", "labels": {"version": "v1"}}]}'),
		('PeerAuthentication', 'shop', 'web', '{"selector": {"matchLabels": {"app": "web"}}}')`)
	b.finds("unknown-host shop/lost spec.http[0].route[0].destination.host consul")
	b.db.Exec(`INSERT INTO mesh.resources (kind, namespace, name, spec) VALUES
		('ServiceEntry', 'shop', 'consul.web', '{"hosts": ["ours.example.com"], ` + onePort + `}'),
		('VirtualService', 'shop', 'lost', '{"hosts": ["lost.test"], "http": [{"route": [{"destination": {"host": "ours.example.com"}}]}]}')`)
	b.finds("selects-nothing shop/web spec.selector.matchLabels", "unknown-host shop/web spec.host", "unknown-host shop/web spec.http[0].route[0].destination.host")
	b.db.Exec("DELETE FROM mesh.resources WHERE kind = 'ServiceEntry'; DELETE FROM mesh.resources WHERE name = 'lost'")
	b.finds("unknown-host shop/lost spec.http[0].route[0].destination.host consul")
}

// In a namespace, a host is that of the first origin, and only its ports and endpoints count.
func TestAHostIsThatOfItsFirstOrigin(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	later := service("zoo.web", `{"hosts": ["web.example.com"], "ports": [{"name": "x", "number": 99, "protocol": "HTTP"}], "resolution": "STATIC", "endpoints": [{"address": "10.0.0.9", "labels": {"version": "v9"}}]}`)
	b.writesTo(registries.Registry{Name: "zoo", Rank: 2}, later)
	b.route("web", `{"host": "web.example.com", "port": {"number": 99}}`)
	b.db.Exec(`INSERT INTO mesh.resources (kind, namespace, name, spec) VALUES ('DestinationRule', 'shop', 'web', '{"host": "web.example.com", "subsets": [{"name": "nine", "labels": {"version": "v9"}}]}')`)
	b.finds()
	b.writes(registries.Changes{Entries: []registries.Entry{service("consul.web", `{"hosts": ["web.example.com"], `+onePort+`, `+serving+`}`)}})
	want := []string{"empty-subset shop/web spec.subsets[0].labels", "unknown-port shop/web spec.http[0].route[0].destination.port.number"}
	b.finds(want...)
	b.shows("SELECT hint FROM mesh.problems WHERE code = 'unknown-port'", "its ports: 80")
	b.writes(registries.Changes{Gone: []registries.Key{service("consul.web", "").Key}})
	b.finds()
	b.db.Exec(`INSERT INTO mesh.resources (kind, namespace, name, spec) VALUES ('ServiceEntry', 'shop', 'web', '{"hosts": ["web.example.com"], ` + onePort + `, ` + serving + `}')`)
	b.finds(want...)
}

// What a registry's configuration names in vain is a problem of it. It may name what the mesh has, and
// the mesh what it has.
func TestWhatRegistriesNameInVainIsAProblem(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.db.Exec(`INSERT INTO mesh.resources (kind, namespace, name, spec) VALUES ('ServiceEntry', 'shop', 'ours', '{"hosts": ["ours.example.com"], ` + onePort + `, ` + serving + `}')`)
	b.writes(registries.Changes{Entries: []registries.Entry{
		resource("VirtualService", networking, "routes", `{"hosts": ["a.test"], "gateways": ["edge", "mesh", "nowhere"], "http": [{"route": [
			{"destination": {"host": "ours.example.com", "port": {"number": 80}}, "weight": 50},
			{"destination": {"host": "ours.example.com", "port": {"number": 99}}, "weight": 50}]},
			{"route": [{"destination": {"host": "ours.example.com", "subset": "gone"}}]}]}`),
		resource("Gateway", networking, "edge", `{"selector": {"app": "web"}, "servers": [{"port": {"number": 443, "name": "https", "protocol": "HTTPS"}, "hosts": ["*.test"],
			"tls": {"mode": "SIMPLE", "credentialName": "missing"}}]}`),
		resource("DestinationRule", networking, "rules", `{"host": "ours.example.com", "subsets": [{"name": "v1", "labels": {"version": "v1"}}, {"name": "v9", "labels": {"version": "v9"}}]}`),
		resource("HTTPRoute", "gateway.networking.k8s.io", "route", `{"parentRefs": [{"name": "nowhere"}], "rules": [{"backendRefs": [{"name": "web", "port": 80}]}]}`),
		resource("XBackend", "gateway.networking.x-k8s.io", "outside", `{"type": "ExternalHostname", "externalHostname": {"hostname": "a.example.com"}, "port": {"port": 80}}`),
		resource("PeerAuthentication", "security.istio.io", "nobody", `{"selector": {"matchLabels": {"app": "nobody"}}}`),
	}})
	b.finds("empty-subset shop/rules spec.subsets[1].labels consul",
		"selects-nothing shop/nobody spec.selector.matchLabels consul",
		"unknown-credential shop/edge spec.servers[0].tls.credentialName consul",
		"unknown-gateway shop/routes spec.gateways[2] consul",
		"unknown-host shop/route spec.rules[0].backendRefs[0].name consul",
		"unknown-parent shop/route spec.parentRefs[0].name consul",
		"unknown-port shop/routes spec.http[0].route[1].destination.port.number consul",
		"unknown-subset shop/routes spec.http[1].route[0].destination.subset consul", "unreachable-route shop/routes spec.http[1] consul",
		"unsupported shop/outside  consul")
	b.shows("SELECT code || ' ' || path FROM mesh_internal.find_problems_of('Gateway', 'networking.istio.io', 'shop', 'edge')", "unknown-credential spec.servers[0].tls.credentialName")

	told := b.db.Notices(`INSERT INTO mesh.resources (kind, namespace, name, spec) VALUES ('VirtualService', 'shop', 'ours',
		'{"hosts": ["a.test"], "gateways": ["edge", "mesh"], "http": [{"route": [{"destination": {"host": "ours.example.com", "subset": "v1", "port": {"number": 80}}}]}]}')`)
	require.Equal(t, []string{`VirtualService shop/ours: spec.hosts[0]: the host "a.test" has another owner for the mesh: VirtualService shop/routes`}, told)

	// Another version that names what there is has no problem any more.
	b.writes(registries.Changes{Entries: []registries.Entry{resource("Gateway", networking, "edge", `{"selector": {"app": "web"}, "servers": [{"port": {"number": 80, "name": "http", "protocol": "HTTP"}, "hosts": ["*.test"]}]}`)}})
	b.shows("SELECT name FROM mesh.problems WHERE code = 'unknown-credential'")
}

// A wildcard of a registry is no service that a route could lead to.
func TestWildcardsOfRegistriesAreNoServices(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.writes(registries.Changes{Entries: []registries.Entry{service("consul.all", `{"hosts": ["*.Example.com"], `+onePort+`, `+serving+`}`)}})
	b.route("one", `{"host": "one.example.com", "port": {"number": 80}}`)
	b.finds("unknown-host shop/one spec.http[0].route[0].destination.host")
	b.shows("SELECT hint FROM mesh.problems", `"*.example.com" lets applications ask for it, but a route needs a ServiceEntry with this host: create one`)
}

// A change that only concerns endpoints writes no link, and very many entries of one host are looked
// at in part.
func TestLinksOfRegistriesCostLittle(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	all := make([]registries.Entry, 0, 2000)
	for i := range cap(all) {
		all = append(all, service(fmt.Sprint("consul.s", i), `{"hosts": ["web.example.com"], `+onePort+`, `+serving+`}`))
	}
	b.writes(registries.Changes{Entries: all})
	const links = "SELECT l.name || l.role || l.xmin FROM mesh_internal.registry_links l UNION ALL SELECT name || labels || w.xmin FROM mesh_internal.registry_workloads w ORDER BY 1"
	before := storetest.Collect[string](b.db, links)
	require.Len(t, before, 6000)
	all[7].Version, all[7].Spec = "sick", json.RawMessage(`{"hosts": ["web.example.com"], `+onePort+`, "resolution": "STATIC", "endpoints": [{"address": "10.0.0.2", "locality": "eu", "network": "east", "labels": {"app": "web", "version": "v1"}}]}`)
	b.writes(registries.Changes{Entries: all[7:8]})
	require.Equal(t, before, storetest.Collect[string](b.db, links))

	b.route("wrong", `{"host": "web.example.com", "port": {"number": 99}}`)
	b.finds("unknown-port shop/wrong spec.http[0].route[0].destination.port.number")
	const read = "SELECT sum(pg_stat_get_xact_tuples_returned(indexrelid)) FROM pg_index WHERE indrelid = 'mesh_internal.registry_links'::regclass"
	b.db.Exec("BEGIN")
	had := storetest.Value[int64](b.db, read) // by statements before, which Postgres has not counted yet
	require.Len(t, storetest.Collect[string](b.db, "SELECT name FROM mesh_internal.registry_services('web.example.com')"), 200)
	require.Less(t, storetest.Value[int64](b.db, read)-had, int64(1000))
	b.db.Exec("ROLLBACK")
}
