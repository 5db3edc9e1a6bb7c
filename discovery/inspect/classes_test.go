package inspect_test

import (
	"net/http"
	"strings"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pgmesh/pgmesh/discovery/push"
)

// classes is /debug/classes, with its documented names.
type classes struct {
	Total struct {
		Classes, Proxies, Resources, Bytes int
		DistinctResources                  int `json:"distinct_resources"`
		DistinctBytes                      int `json:"distinct_bytes"`
	}
	Classes []struct {
		Class, Role, Namespace, Revision string
		Proxies                          []string
		Resources, Bytes                 int
		OwnResources                     int `json:"own_resources"`
		OwnBytes                         int `json:"own_bytes"`
		Types                            []struct {
			Type             string
			Resources, Bytes int
		}
	}
}

func TestClassesTellWhatTheyShare(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.apply(web)
	b.connect(node("sidecar", "10.0.0.1", "vm-1"), push.ClusterType).accept(1)
	b.connect(node("sidecar", "10.0.0.2", "vm-2"), push.ClusterType).accept(1)
	b.connect(node("sidecar", "10.1.0.1", "web-1"), push.ClusterType).accept(1) // it serves web, and so has an inbound cluster
	page := shown[classes](b, "/debug/classes")
	require.Equal(t, 2, page.Total.Classes)
	require.Equal(t, 3, page.Total.Proxies)
	alike, serving := page.Classes[0], page.Classes[1]
	require.Equal(t, []string{"vm-1.shop", "vm-2.shop"}, alike.Proxies)
	require.Equal(t, []string{"web-1.shop"}, serving.Proxies)
	require.Equal(t, []string{"sidecar", "shop", "1"}, []string{alike.Role, alike.Namespace, alike.Revision})
	require.Equal(t, "clusters", alike.Types[0].Type)
	require.Less(t, alike.Types[0].Resources, serving.Types[0].Resources)
	require.Equal(t, alike.Resources+serving.Resources, page.Total.Resources)
	require.Less(t, page.Total.DistinctResources, page.Total.Resources, "the cluster of web is the same for both")
	require.Less(t, page.Total.DistinctBytes, page.Total.Bytes)
	require.Positive(t, serving.OwnResources)
	require.Less(t, serving.OwnBytes, serving.Bytes)

	require.Equal(t, serving, shown[classes](b, "/debug/classes?class="+serving.Class).Classes[0])
	code, text := b.get("/debug/classes?class=0000")
	require.Equal(t, http.StatusNotFound, code)
	require.Contains(t, text, "there is no class 0000: there are ")
}

// Proxies on demand are of one class, and each has what it has asked for: the class has all of
// that.
func TestAClassOnDemandHasWhatItsProxiesHave(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.apply(web + "---" + strings.NewReplacer("name: web", "name: shop", "web.shop", "shop.shop").Replace(web))
	demanding := func(name, host string) {
		n := envoy(node("sidecar", "10.0.0.1", name))
		n.Metadata = &structpb.Struct{Fields: map[string]*structpb.Value{"ON_DEMAND": structpb.NewStringValue("true")}}
		p := b.connect(n, push.ClusterType)
		p.accept(1)
		p.send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: push.VirtualHostType, ResourceNamesSubscribe: []string{"80/" + host}})
	}
	demanding("vm-1", "web.shop")
	demanding("vm-2", "shop.shop")
	hosts := func(c classes) int { return c.Classes[0].Types[3].Resources }
	page := eventually(b, "/debug/classes", func(c classes) bool { return len(c.Classes) == 1 && len(c.Classes[0].Proxies) == 2 && hosts(c) >= 2 })
	require.Equal(t, "hosts", page.Classes[0].Types[3].Type)
	for _, p := range shown[proxies](b, "/debug/proxies") {
		require.True(t, p.OnDemand)
		clusters := shown[[]struct{ Name string }](b, "/debug/clusters?name=outbound&proxy="+p.Proxy)
		require.Len(t, clusters, 1, p.Proxy)
	}
}
