package mcp_test

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/internal/ads"
	"github.com/pgmesh/pgmesh/internal/ads/served"
	"github.com/pgmesh/pgmesh/internal/listen"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-server/serve"
	"github.com/pgmesh/pgmesh/registry/registrytest"
)

var entryKind, _ = kinds.Lookup("networking.istio.io", "ServiceEntry")

// database is a server of another mesh that has services with workloads, and configuration.
func database(t *testing.T) (server *server, change func(sql string)) {
	t.Helper()
	of := newMesh(t)
	execute(t, of, `INSERT INTO mesh.resources (kind, namespace, name, labels, annotations, spec) VALUES
		('ServiceEntry', 'shop', 'web', '{"team": "shop"}', '{}', '{"hosts": ["web.shop"], "ports": [{"number": 80, "name": "http", "protocol": "HTTP"}], "resolution": "STATIC", "workloadSelector": {"labels": {"app": "web"}}}'),
		('ServiceEntry', 'shop', 'far', '{}', '{}', '{"hosts": ["far.shop"], "ports": [{"number": 80, "name": "http", "protocol": "HTTP"}], "resolution": "DNS", "workloadSelector": {"labels": {"app": "far"}}}'),
		('WorkloadEntry', 'shop', 'web-2', '{"version": "v2"}', '{"mesh.pgmesh.io/health": "unhealthy: it says 500"}', '{"address": "10.0.0.2", "labels": {"app": "web"}}'),
		('WorkloadEntry', 'shop', 'web-1', '{"app": "web"}', '{}', '{"address": "10.0.0.1", "serviceAccount": "web"}'),
		('WorkloadEntry', 'shop', 'other', '{}', '{}', '{"address": "10.0.0.3", "labels": {"app": "other"}}'),
		('WorkloadEntry', 'bank', 'web-3', '{}', '{}', '{"address": "10.0.0.4", "labels": {"app": "web"}}'),
		('VirtualService', 'shop', 'web', '{}', '{}', '{"hosts": ["web.shop"], "http": [{"route": [{"destination": {"host": "web.shop"}}]}]}'),
		('DestinationRule', 'bank', 'web', '{}', '{}', '{"host": "web.shop"}')`)
	return run(t, serve.Options{Database: of}), func(sql string) { execute(t, of, sql) }
}

func endpointsOf(w *registrytest.Watcher, name string) (all []string) {
	if w.All[name] == nil {
		return nil
	}
	for _, e := range w.All[name].Spec.Message().(*networking.ServiceEntry).GetEndpoints() {
		all = append(all, e.GetAddress()+" "+e.GetLabels()["app"]+" "+e.GetLabels()["version"]+" "+e.GetServiceAccount()+" "+e.GetLabels()[kinds.HealthLabel])
	}
	return all
}

// Services have the workloads that they select at the server, and no workload is selected by what this
// mesh has.
func TestServicesHaveTheWorkloadsThatTheySelect(t *testing.T) {
	t.Parallel()
	server, change := database(t)
	w := watch(t, server.address, "insecure=true&name=other")
	w.UntilThere(t, "other.web", "other.far")
	require.Equal(t, []string{"10.0.0.1 web  web ", "10.0.0.2 web v2  unhealthy"}, endpointsOf(w, "other.web"))
	web := w.All["other.web"]
	require.Equal(t, map[string]string{"team": "shop"}, web.Labels)
	require.Equal(t, "shop", web.Namespace)
	require.Equal(t, map[string]string{kinds.OriginEntryAnnotation: "ServiceEntry shop/web"}, web.Annotations)
	far := w.All["other.far"].Spec.Message().(*networking.ServiceEntry)
	require.Equal(t, networking.ServiceEntry_STATIC, far.GetResolution(), "one that is resolved and has no endpoints leads to its own host")

	change(`UPDATE mesh.resources SET annotations = '{}' WHERE name = 'web-2'; DELETE FROM mesh.resources WHERE name = 'web-1'; UPDATE mesh.resources SET labels = '{"app": "web"}' WHERE name = 'other';
		INSERT INTO mesh.resources (kind, namespace, name, spec) VALUES ('WorkloadEntry', 'shop', 'far', '{"address": "far.example", "labels": {"app": "far"}}')`)
	w.Until(t, "workloads come and go", func() bool { return len(endpointsOf(w, "other.far")) == 1 })
	w.Until(t, "workloads come and go", func() bool { return len(endpointsOf(w, "other.web")) == 2 })
	require.Equal(t, []string{"10.0.0.3 web   ", "10.0.0.2 web v2  "}, endpointsOf(w, "other.web"))
	require.Equal(t, networking.ServiceEntry_DNS, w.All["other.far"].Spec.Message().(*networking.ServiceEntry).GetResolution())
	change(`DELETE FROM mesh.resources WHERE kind = 'ServiceEntry' AND name = 'far'`)
	w.UntilThere(t, "other.web")
}

func TestKindsAndNamespacesAreChosen(t *testing.T) {
	t.Parallel()
	server, _ := database(t)
	for parameters, want := range map[string][]string{
		"":                                      {"other.web", "other.far"},
		"&kinds=vs,DestinationRule":             {"web shop", "web bank"},
		"&kinds=vs,se&namespaces=shop":          {"web shop", "other.web", "other.far"},
		"&kinds=*&namespaces=bank":              {"web bank", "web-3"},
		"&kinds=serviceentries&namespaces=bank": {},
	} {
		w := registrytest.Watch(t, open(t, server.address, "insecure=true&name=other"+parameters), func(k kinds.Key) string {
			if k.Kind.Name == "VirtualService" || k.Kind.Name == "DestinationRule" {
				return k.Name + " " + k.Namespace
			}
			return k.Name
		})
		w.UntilThere(t, want...)
		if parameters == "&kinds=vs,DestinationRule" {
			require.Equal(t, "VirtualService shop/web", w.All["web shop"].Annotations[kinds.OriginEntryAnnotation])
		}
	}
}

// Of two registries of a server that claim a host, the one that counts there counts here, but where
// both are of the set that the URL names.
func TestTheOrderOfTheServersRegistriesHolds(t *testing.T) {
	t.Parallel()
	first, second := newInventory(t), newInventory(t)
	text := func(address string) string {
		return `services: [{name: web, hosts: [web.example.com, ` + address + `.example.com], ports: [{number: 80, protocol: HTTP}], instances: [{address: ` + address + `}],
			annotations: {pgmesh.io/origin-set: prod, pgmesh.io/origin-authorities: '{"a/b": "c"}', pgmesh.io/origin-namespace-labels: env=prod, pgmesh.io/origin-endpoints: '[]'}}]`
	}
	require.NoError(t, os.WriteFile(filepath.Join(first.path, "web.yaml"), []byte(text("10.0.0.1")), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(second.path, "web.yaml"), []byte(text("10.0.0.2")), 0o644))
	bridge := run(t, serve.Options{Registries: registries(first.url("first"), second.url("second"))})
	hosts := func(w *registrytest.Watcher, name string) []string {
		return w.All[name].Spec.Message().(*networking.ServiceEntry).GetHosts()
	}
	of := watch(t, bridge.address, "insecure=true&set=prod")
	of.UntilThere(t, "mcp.first.web", "mcp.second.web")
	require.Equal(t, []string{"web.example.com", "10.0.0.2.example.com"}, hosts(of, "mcp.second.web"))
	require.Equal(t, map[string]string{
		kinds.OriginEntryAnnotation: "second/web.yaml", kinds.OriginSetAnnotation: "prod", kinds.OriginNamespaceAnnotation: "env=prod", kinds.OriginEndpointsAnnotation: "[]",
	}, of.All["mcp.second.web"].Annotations, "whom to trust is not said by others")

	require.NoError(t, os.WriteFile(filepath.Join(second.path, "web.yaml"), []byte(`services: [{name: web, hosts: [web.example.com, other.example.com], ports: [{number: 80, protocol: HTTP}]}]`), 0o644))
	of.Until(t, "the first counts", func() bool { return len(hosts(of, "mcp.second.web")) == 1 })
	require.Equal(t, []string{"web.example.com", "10.0.0.1.example.com"}, hosts(of, "mcp.first.web"))
	require.Equal(t, []string{"other.example.com"}, hosts(of, "mcp.second.web"))
	require.NoError(t, os.Remove(filepath.Join(first.path, "web.yaml")))
	of.UntilThere(t, "mcp.second.web")
	require.Equal(t, []string{"web.example.com", "other.example.com"}, hosts(of, "mcp.second.web"))

	none := watch(t, bridge.address, "insecure=true")
	none.UntilThere(t, "mcp.second.web")
	require.Empty(t, none.All["mcp.second.web"].OriginSet(), "who counts with whom is decided here")
}

// A stranger's server may have annotations that anybody has written there.
func TestAnnotationsOfAStrangerSayNothing(t *testing.T) {
	t.Parallel()
	claimed := map[string]string{"note": "kept"}
	for _, name := range kinds.OriginAnnotations() {
		claimed[name] = "prod"
	}
	r := &kinds.Resource{Kind: entryKind, Namespace: "shop", Name: "web", Annotations: maps.Clone(claimed), Spec: kinds.SpecOf(&networking.ServiceEntry{
		Hosts: []string{"web.shop"}, Ports: []*networking.ServicePort{{Number: 80, Name: "http", Protocol: "HTTP"}}, Resolution: networking.ServiceEntry_STATIC,
	})}
	w := watch(t, stranger(t, r), "insecure=true&set=prod")
	w.UntilThere(t, "mcp.web")
	require.Equal(t, map[string]string{"note": "kept", kinds.OriginEntryAnnotation: "ServiceEntry shop/web"}, w.All["mcp.web"].Annotations)
}

// stranger is a server that speaks MCP and is none of ours.
func stranger(t *testing.T, all ...*kinds.Resource) (address string) {
	t.Helper()
	sets := map[string]*served.Set{}
	for _, r := range all {
		body, err := r.Any("1")
		require.NoError(t, err)
		sets[r.Kind.TypeURL()] = sets[r.Kind.TypeURL()].With([]*served.Resource{{Name: r.Key().FullName(), Version: "1", Body: body}}, nil)
	}
	var topic served.Topic
	topic.Publish(&served.Snapshot{Revision: "1", Sets: sets})
	g := grpc.NewServer(grpc.WaitForHandlers(true))
	ads.NewServer(ads.Config{
		Open:       func(context.Context, *corev3.Node, bool) (*served.Subscriber, error) { return topic.Subscribe(), nil },
		Identifier: "stranger",
	}).Register(g)
	l, err := listen.TCP("listen", newAddress(t))
	require.NoError(t, err)
	over := make(chan error, 1)
	go func() { over <- g.Serve(l) }()
	t.Cleanup(func() {
		g.Stop()
		require.NoError(t, <-over)
	})
	return l.Addr().String()
}

// What the rules of a kind refuse costs only itself, and its last good state stays.
func TestABadResourceOfAStrangerCostsOnlyItself(t *testing.T) {
	t.Parallel()
	of := func(name, host string) *kinds.Resource {
		return &kinds.Resource{Kind: entryKind, Namespace: "shop", Name: name, Spec: kinds.SpecOf(&networking.ServiceEntry{
			Hosts: []string{host}, Ports: []*networking.ServicePort{{Number: 80, Name: "http", Protocol: "HTTP"}}, Resolution: networking.ServiceEntry_STATIC,
		})}
	}
	server := run(t, serve.Options{Registries: registries("mcp://" + stranger(t, of("good", "good.shop"), of("bad", "no host!")) + "?insecure=true&name=other")})
	server.untilReady("1 bad entries in the registry other, such as ServiceEntry shop/other.bad: ")
	watch(t, server.address, "insecure=true").UntilThere(t, "mcp.other.good")
}
