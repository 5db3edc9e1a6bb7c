package push_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pgmesh/pgmesh/discovery/push"
	"github.com/pgmesh/pgmesh/internal/ads/served"
	"github.com/pgmesh/pgmesh/kinds"
)

// labelled opens a sidecar with a label.
func (b *bench) labelled(t testing.TB, ip, namespace, app string) *served.Subscriber {
	t.Helper()
	n := node(ip, namespace)
	n.Metadata.Fields["LABELS"] = structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{"app": structpb.NewStringValue(app)}})
	s, err := b.Open(t.Context(), n, true)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s
}

// passing opens a proxy that the test closes.
func (b *bench) passing(t testing.TB, n *corev3.Node) *served.Subscriber {
	t.Helper()
	s, err := b.Open(t.Context(), n, true)
	require.NoError(t, err)
	return s
}

// told lists what was told, as "Kind namespace/name: who".
func told(news []push.Audience) (out []string) {
	for _, n := range news {
		who := fmt.Sprint(n.Circles)
		if n.Everyone {
			who = "everyone"
		}
		out = append(out, n.Of.String()+": "+who)
	}
	return out
}

func (b *bench) circle(s *served.Subscriber) uint32 {
	m, _ := b.Member(s)
	return m.Circle
}

func TestAudiencesAreToldWhenTheyDiffer(t *testing.T) {
	t.Parallel()
	b := newBench()
	require.Empty(t, b.Audiences().Changed(), "there is no mesh yet")
	b.apply(t, service+"---"+workload("one", "10.0.0.1")+"---"+route("web", "1"))
	require.Empty(t, b.Audiences().Changed(), "nobody is there whom anything could concern")

	one := b.proxy(t, "10.0.0.1", "shop")
	all := []string{"ServiceEntry shop/web: everyone", "VirtualService shop/web: everyone", "WorkloadEntry shop/one: everyone"}
	require.Equal(t, all, told(b.Audiences().Changed()))
	other := b.proxy(t, "10.0.0.2", "shop")
	elsewhere := b.proxy(t, "10.0.0.3", "elsewhere")
	require.Empty(t, b.Audiences().Changed(), "everyone means the new ones too")
	require.Equal(t, b.circle(one), b.circle(other), "what the two serve is no difference to what concerns them")
	require.NotEqual(t, b.circle(one), b.circle(elsewhere))

	b.apply(t, route("web", "2"))
	require.Empty(t, b.Audiences().Changed(), "another spec concerns the same proxies")
	gate := b.passing(t, &corev3.Node{Id: "router~10.0.0.8~gate.edge~edge.svc.cluster.local"})
	require.Equal(t, []string{fmt.Sprintf("VirtualService shop/web: [%d %d]", b.circle(one), b.circle(elsewhere))}, told(b.Audiences().Changed()))
	gate.Close()
	require.Equal(t, all[1:2], told(b.Audiences().Changed()))

	b.remove(kinds.Key{Kind: b.config.Snapshot().Get(keyOf(t, route("web", "1"))).Kind, Namespace: "shop", Name: "web"})
	require.Equal(t, []string{"VirtualService shop/web: []"}, told(b.Audiences().Changed()))
	b.Audiences().Reset()
	require.Equal(t, []string{all[0], all[2]}, told(b.Audiences().Changed()))
}

func keyOf(t testing.TB, document string) kinds.Key {
	t.Helper()
	documents, err := kinds.Parse("test.yaml", []byte(document))
	require.NoError(t, err)
	return documents[0].Resource.Key()
}

// A number never stands for other proxies than those that it once stood for.
func TestACircleIsNeverNumberedLikeAnother(t *testing.T) {
	t.Parallel()
	b := newBench()
	b.apply(t, service)
	var numbers []uint32
	for _, namespace := range []string{"a", "b", "a"} {
		s := b.passing(t, node("10.0.0.1", namespace))
		b.Audiences().Changed()
		numbers = append(numbers, b.circle(s))
		s.Close()
		b.Audiences().Changed()
	}
	require.Equal(t, []uint32{1, 2, 3}, numbers)
}

// What follows is about what seldom happens in random histories.
func TestAudiencesFollowEveryChange(t *testing.T) {
	t.Parallel()
	policy := func(spec string) string {
		return resource("DestinationRule", "networking.istio.io/v1", "shop", "some", spec)
	}
	for name, steps := range map[string][]string{
		"a policy for selected workloads": {
			policy("host: web.shop, workloadSelector: {matchLabels: {app: web}}"), policy("host: web.shop, workloadSelector: {matchLabels: {app: cart}}"), policy("host: web.shop"),
			policy("host: web.shop, workloadSelector: {matchLabels: {app: web}}"), policy("host: other.shop, workloadSelector: {matchLabels: {app: web}}"),
		},
		"a service that its own workloads do not see": {
			strings.Replace(service, "spec:\n", "spec:\n  exportTo: [bank]\n", 1), workload("two", "10.0.0.2"), workload("two", "10.0.0.7"), workload("three", "10.0.0.2"),
			route("web", "3"), service, strings.Replace(service, "spec:\n", "spec:\n  exportTo: ['.']\n", 1), strings.Replace(service, "spec:\n", "spec:\n  exportTo: [bank]\n", 1),
		},
		"a Sidecar": {
			resource("Sidecar", "networking.istio.io/v1", "shop", "all", "egress: [{hosts: [bank/*]}]"), workload("two", "10.0.0.2"),
			resource("Sidecar", "networking.istio.io/v1", "shop", "all", "egress: [{hosts: ['*/*']}]"),
			resource("Sidecar", "networking.istio.io/v1", "shop", "web", "workloadSelector: {labels: {app: web}}, egress: [{hosts: [bank/*]}]"), route("web", "3"),
		},
		"peers": {
			resource("PeerAuthentication", "security.istio.io/v1", "shop", "all", "mtls: {mode: STRICT}"),
			resource("PeerAuthentication", "security.istio.io/v1", "shop", "web", "selector: {matchLabels: {app: web}}, mtls: {mode: STRICT}"),
			strings.Replace(service, "spec:\n", "spec:\n  exportTo: ['.']\n", 1), service,
			resource("PeerAuthentication", "security.istio.io/v1", "bank", "web", "selector: {matchLabels: {app: web}}, mtls: {mode: STRICT}"),
		},
		"what is said to proxies of one class": {
			resource("ProxyConfig", "networking.istio.io/v1beta1", "shop", "web", "selector: {matchLabels: {app: cart}}, environmentVariables: {A: b}"),
			resource("ProxyConfig", "networking.istio.io/v1beta1", "shop", "web", "selector: {matchLabels: {app: web}}, environmentVariables: {A: b}"),
		},
		"policies": {
			resource("AuthorizationPolicy", "security.istio.io/v1", "shop", "web", "selector: {matchLabels: {app: web}}"),
			resource("AuthorizationPolicy", "security.istio.io/v1", "shop", "web", "selector: {matchLabels: {app: cart}}"),
			resource("ProxyConfig", "networking.istio.io/v1beta1", "shop", "web", "selector: {matchLabels: {app: cart}}, environmentVariables: {A: b}"),
			resource("ProxyConfig", "networking.istio.io/v1beta1", "shop", "web", "selector: {matchLabels: {app: web}}, environmentVariables: {A: b}"),
			patched("web", "CLUSTER", "{connect_timeout: 1s}"), resource("MeshConfig", "core/v1alpha1", "istio-system", "mesh", "rootNamespace: bank"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, every := range []int{1, 2, 100} {
				b, heard := newBench(), audiences{}
				b.apply(t, service+"---"+workload("one", "10.0.0.1"))
				b.labelled(t, "10.0.0.1", "shop", "web")
				b.labelled(t, "10.0.0.2", "shop", "cart")
				b.labelled(t, "10.0.0.3", "bank", "web")
				b.router(t, "shop")
				require.Empty(t, heard.wrong(b))
				for i, step := range slices.Concat(steps, []string{route("web", "4")}) {
					b.apply(t, step)
					if i%every == 0 {
						require.Empty(t, heard.wrong(b), "after step %d:\n%s", i, step)
					}
				}
				require.Empty(t, heard.wrong(b))
			}
		})
	}
}

func resource(kind, version, namespace, name, spec string) string {
	return fmt.Sprintf("apiVersion: %s\nkind: %s\nmetadata: {name: %s, namespace: %s}\nspec: {%s}\n", version, kind, name, namespace, spec)
}
