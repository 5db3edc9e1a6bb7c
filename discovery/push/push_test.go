package push_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pgmesh/pgmesh/discovery/configstore"
	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/push"
	"github.com/pgmesh/pgmesh/internal/ads/served"
	"github.com/pgmesh/pgmesh/kinds"
)

// bench is an engine with the configuration that it is fed from.
type bench struct {
	*push.Engine
	config   *configstore.Store
	mesh     *mesh.Mesh
	revision int64
}

func newBench() *bench {
	return newLoggingBench(io.Discard)
}

// apply puts resources, given as YAML, into the mesh, and pushes.
func (b *bench) apply(t testing.TB, yaml string) {
	t.Helper()
	b.push(changesOf(t, yaml))
}

// changesOf has each resource of a text come.
func changesOf(t testing.TB, yaml string) (changes []kinds.Change) {
	t.Helper()
	documents, err := kinds.Parse("test.yaml", []byte(yaml))
	require.NoError(t, err)
	for _, d := range documents {
		changes = append(changes, kinds.Change{Key: d.Resource.Key(), Resource: d.Resource})
	}
	return changes
}

func (b *bench) remove(k kinds.Key) { b.push([]kinds.Change{{Key: k}}) }

func (b *bench) push(changes []kinds.Change) {
	b.revision++
	step := b.config.Apply(kinds.Batch{Revision: b.revision, Changes: changes})
	b.mesh = mesh.Build(step, b.mesh)
	b.Update(b.mesh, step)
}

// believe pushes what follows from a trust.
func (b *bench) believe(trust mesh.Trust) {
	if now := b.mesh.WithTrust(trust); now != b.mesh {
		b.mesh = now
		b.Update(now, configstore.Step{})
	}
}

func (b *bench) proxy(t testing.TB, ip, namespace string) *served.Subscriber {
	t.Helper()
	s, err := b.Open(t.Context(), node(ip, namespace), true)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s
}

func node(ip, namespace string) *corev3.Node {
	return &corev3.Node{
		Id: fmt.Sprintf("sidecar~%s~vm-%s.%s~%s.svc.cluster.local", ip, ip, namespace, namespace),
		Metadata: &structpb.Struct{Fields: map[string]*structpb.Value{
			"NAMESPACE": structpb.NewStringValue(namespace), "INTERCEPTION_MODE": structpb.NewStringValue("REDIRECT"),
		}},
	}
}

const service = `
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: web, namespace: shop}
spec:
  hosts: [web.shop]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{number: 80, name: http, protocol: HTTP}]
  workloadSelector: {labels: {app: web}}
`

func workload(name, ip string) string {
	return fmt.Sprintf(`
apiVersion: networking.istio.io/v1
kind: WorkloadEntry
metadata: {name: %s, namespace: shop}
spec: {address: %s, labels: {app: web}}
`, name, ip)
}

func route(name, header string) string {
	return fmt.Sprintf(`
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: %s, namespace: shop}
spec:
  hosts: [web.shop]
  http:
  - headers: {response: {set: {x-rule: %q}}}
    route: [{destination: {host: web.shop}}]
`, name, header)
}

func TestProxiesWaitForTheFirstState(t *testing.T) {
	t.Parallel()
	b := newBench()
	early := b.proxy(t, "10.0.0.1", "shop")
	require.Nil(t, early.Snapshot())

	b.apply(t, service)

	require.NotNil(t, early.Snapshot())
	require.Equal(t, "1", early.Snapshot().Revision)
}

func TestProxiesAlikeShareWhatTheyAreSent(t *testing.T) {
	t.Parallel()
	b := newBench()
	b.apply(t, service)
	one, two, other := b.proxy(t, "10.0.0.1", "shop"), b.proxy(t, "10.0.0.2", "shop"), b.proxy(t, "10.0.0.3", "elsewhere")

	require.Same(t, one.Snapshot(), two.Snapshot())
	require.NotSame(t, one.Snapshot(), other.Snapshot())
}

func TestOnlyWhatChangedIsNew(t *testing.T) {
	t.Parallel()
	b := newBench()
	b.apply(t, service+"---"+route("web", "1"))
	p := b.proxy(t, "10.0.0.1", "shop")
	before := p.Snapshot().Sets

	b.apply(t, route("web", "2"))
	after := p.Snapshot().Sets

	require.Same(t, before[push.ClusterType], after[push.ClusterType])
	require.Same(t, before[push.EndpointType], after[push.EndpointType])
	require.Same(t, before[push.ListenerType], after[push.ListenerType])
	require.NotSame(t, before[push.RouteType], after[push.RouteType])
}

func TestTheSameContentIsNoNews(t *testing.T) {
	t.Parallel()
	b := newBench()
	b.apply(t, service+"---"+route("web", "1"))
	p := b.proxy(t, "10.0.0.1", "shop")
	before := p.Snapshot()

	b.apply(t, service+"---"+route("web", "1"))

	require.Same(t, before, p.Snapshot(), "the proxy is not even woken")
	late := b.proxy(t, "10.0.0.1", "shop").Snapshot()
	require.Equal(t, "2", late.Revision)
	require.Equal(t, before.Sets, late.Sets)
}

// A proxy whose workload joins a service gets inbound clusters that its neighbours do not have,
// whichever of them came first.
func TestAProxyChangesItsClassWithTheMesh(t *testing.T) {
	t.Parallel()
	b := newBench()
	b.apply(t, service)
	first, second := b.proxy(t, "10.0.0.1", "shop"), b.proxy(t, "10.0.0.2", "shop")
	require.Same(t, first.Snapshot(), second.Snapshot())

	b.apply(t, workload("first", "10.0.0.1"))
	require.NotNil(t, first.Snapshot().Sets[push.ClusterType].Get("inbound|80||"))
	require.Nil(t, second.Snapshot().Sets[push.ClusterType].Get("inbound|80||"))

	b.apply(t, workload("second", "10.0.0.2"))
	require.Same(t, first.Snapshot(), second.Snapshot())

	entry, _ := kinds.Lookup("networking.istio.io", "WorkloadEntry")
	b.remove(kinds.Key{Kind: entry, Namespace: "shop", Name: "first"})
	require.Nil(t, first.Snapshot().Sets[push.ClusterType].Get("inbound|80||"))
	require.NotNil(t, second.Snapshot().Sets[push.ClusterType].Get("inbound|80||"))
}

func TestANodeThatSaysNothingIsRefusedWithAReason(t *testing.T) {
	t.Parallel()
	_, err := newBench().Open(t.Context(), &corev3.Node{Id: "nonsense"}, true)

	require.Equal(t, codes.InvalidArgument, status.Code(err))
	require.ErrorContains(t, err, "nonsense")
}

// The result of incremental updates equals a translation of the same mesh from nothing.
func TestUpdatesEqualATranslationFromScratch(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 1))
		b := newBench()
		p := b.proxy(t, "10.0.0.1", "shop")
		b.apply(t, service)
		for range 30 {
			b.step(t, random)
		}

		fresh := newBench()
		q := fresh.proxy(t, "10.0.0.1", "shop")
		var all []kinds.Change
		for _, k := range kinds.All() {
			for r := range b.config.Snapshot().Of(k) {
				all = append(all, kinds.Change{Key: r.Key(), Resource: r})
			}
		}
		random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		fresh.push(all)

		for typeURL := range p.Snapshot().Sets {
			require.Equal(t, versions(q.Snapshot().Sets[typeURL]), versions(p.Snapshot().Sets[typeURL]), "seed %d, %s", seed, typeURL)
		}
	}
}

// step makes one random change.
func (b *bench) step(t *testing.T, random *rand.Rand) {
	t.Helper()
	name := fmt.Sprintf("n%d", random.IntN(4))
	switch random.IntN(11) {
	case 0:
		b.apply(t, route(name, fmt.Sprint(random.IntN(5))))
	case 4:
		b.apply(t, fmt.Sprintf(`
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: %s, namespace: shop}
spec: {hosts: [n%d.shop], tcp: [{route: [{destination: {host: web.shop, subset: s%d}}]}]}
`, name, random.IntN(4), random.IntN(3)))
	case 1:
		b.apply(t, workload(name, fmt.Sprintf("10.0.0.%d", 1+random.IntN(3))))
	case 2:
		b.apply(t, fmt.Sprintf(`
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: %s, namespace: shop}
spec: {host: web.shop, subsets: [{name: s%d, labels: {app: web}}]}
`, name, random.IntN(3)))
	case 3:
		b.apply(t, fmt.Sprintf(`
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: %s, namespace: shop}
spec:
  hosts: [%s.shop]
  resolution: STATIC
  ports: [{number: %d, name: p, protocol: %s}]
  addresses: [240.0.0.%d]
  endpoints: [{address: 10.1.0.1}]
`, name, name, 80+random.IntN(3), []string{"HTTP", "TCP"}[random.IntN(2)], 1+random.IntN(3)))
	case 5:
		b.apply(t, fmt.Sprintf(`
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: %s, namespace: shop}
spec:
  egress: [{hosts: [%s]}]
  ingress: [{port: {number: %d, name: http, protocol: HTTP}, defaultEndpoint: '127.0.0.1:80'}]
`, name, []string{"./*", "elsewhere/*", "'*/n1.shop'", "'*/*'"}[random.IntN(4)], 8080+random.IntN(2)))
	case 6:
		b.apply(t, fmt.Sprintf(`
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: %s, namespace: elsewhere}
spec: {hosts: [%s.elsewhere], resolution: STATIC, ports: [{number: 80, name: p, protocol: HTTP}], endpoints: [{address: 10.1.0.%d}]}
`, name, name, random.IntN(3)))
	case 7:
		b.apply(t, fmt.Sprintf(`
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: default, namespace: shop}
spec: {mtls: {mode: %s}}
`, []string{"STRICT", "PERMISSIVE", "DISABLE"}[random.IntN(3)]))
	case 8:
		b.apply(t, patched(name, []string{"CLUSTER", "ROUTE_CONFIGURATION", "LISTENER"}[random.IntN(3)], `{name: `+name+`}`))
	default:
		kind, _ := kinds.Lookup("networking.istio.io", []string{"VirtualService", "WorkloadEntry", "DestinationRule", "ServiceEntry", "Sidecar", "EnvoyFilter"}[random.IntN(6)])
		b.remove(kinds.Key{Kind: kind, Namespace: "shop", Name: name})
	}
}

func versions(set *served.Set) map[string]string {
	m := map[string]string{}
	for r := range set.All() {
		m[r.Name] = r.Version
	}
	return m
}

// Envoy refuses a header name like this, and with it every route on the port.
func TestWhatEnvoyWouldRefuseIsLeftOutAndTheRestFlowsOn(t *testing.T) {
	t.Parallel()
	b := newBench()
	b.apply(t, service+"---"+route("web", "1"))
	p := b.proxy(t, "10.0.0.1", "shop")
	before := p.Snapshot().Sets[push.RouteType].Get("80")

	b.apply(t, strings.Replace(route("web", "2"), "x-rule", `"x rule\n"`, 1))
	require.Same(t, before, p.Snapshot().Sets[push.RouteType].Get("80"))

	b.apply(t, workload("first", "10.0.0.9"))
	require.Equal(t, "3", p.Snapshot().Revision)
	require.Contains(t, string(p.Snapshot().Sets[push.EndpointType].Get("outbound|80||web.shop").Body.GetValue()), "10.0.0.9")

	b.apply(t, route("web", "4"))
	require.NotSame(t, before, p.Snapshot().Sets[push.RouteType].Get("80"))
}
