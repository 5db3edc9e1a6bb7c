package kubernetes

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/registry"
	"github.com/pgmesh/pgmesh/registry/service"
)

func testContent() *content {
	return newContent(&settings{name: "kubernetes", domain: defaultDomain, pods: true, nodes: true, addresses: true})
}

// aService has two ports, of which Pods have names.
func aService(name string) *serviceObject {
	o := &serviceObject{}
	o.Metadata.Namespace, o.Metadata.Name = "shop", name
	o.Spec.IPFamilies = []string{"IPv4"}
	o.Spec.Ports = []servicePort{{Name: "http", Port: 80}, {Name: "grpc", Port: 81}}
	return o
}

func aSlice(name, service string, ports []slicePort, addresses ...string) *slice {
	s := &slice{key: key{"shop", name}, service: key{"shop", service}, family: "IPv4", ports: ports}
	for _, a := range addresses {
		s.endpoints = append(s.endpoints, endpoint{address: a})
	}
	return s
}

func entriesOf(t *testing.T, c *content, k key) map[string]*networking.ServiceEntry {
	t.Helper()
	all, err := c.resources(k)
	require.NoError(t, err)
	out := map[string]*networking.ServiceEntry{}
	for _, r := range all {
		spec, err := r.SpecJSON()
		require.NoError(t, err)
		require.Empty(t, r.Kind.Check(spec, kinds.Meta{Name: r.Name, Namespace: r.Namespace, Labels: r.Labels, Annotations: r.Annotations}))
		out[r.Name] = r.Spec.Message().(*networking.ServiceEntry)
	}
	return out
}

// A Pod that does not have a named port is not asked for it.
func TestPodsWithoutAPort(t *testing.T) {
	t.Parallel()
	c := testContent()
	web := key{"shop", "web"}
	c.setService(web, aService("web"))
	c.setSlice(key{"shop", "a"}, aSlice("a", "web", []slicePort{{"http", 8080}, {"grpc", 8081}}, "10.0.0.1"))
	c.setSlice(key{"shop", "b"}, aSlice("b", "web", []slicePort{{"grpc", 9081}}, "10.0.0.2"))
	six := aSlice("c", "web", []slicePort{{"http", 8080}, {"grpc", 8081}}, "fd00::1")
	six.family = "IPv6"
	c.setSlice(key{"shop", "c"}, six)
	all := entriesOf(t, c, web)
	require.Len(t, all, 2)
	for name, entry := range all {
		require.Equal(t, []string{"web.shop.svc.cluster.local"}, entry.GetHosts())
		require.Len(t, entry.GetEndpoints(), 1, "a Pod with addresses of two families is one")
		if name == "kubernetes.web" {
			require.Equal(t, map[string]uint32{"http": 8080, "grpc": 8081}, entry.GetEndpoints()[0].GetPorts())
			continue
		}
		require.Len(t, entry.GetPorts(), 1)
		require.Equal(t, map[string]uint32{"grpc": 9081}, entry.GetEndpoints()[0].GetPorts())
	}
}

// An endpoint that moves from a slice to another may be in both.
func TestAnEndpointInTwoSlices(t *testing.T) {
	t.Parallel()
	c := testContent()
	web, ports := key{"shop", "web"}, []slicePort{{"http", 8080}, {"grpc", 8081}}
	o := aService("web")
	o.Spec.ClusterIP = headless
	c.setService(web, o)
	first, second := aSlice("a", "web", ports, "10.0.0.1"), aSlice("b", "web", ports, "10.0.0.1", "10.0.0.2")
	first.endpoints[0].health, first.endpoints[0].hostname, second.endpoints[0].hostname = service.Unhealthy, "web-0", "web-0"
	c.setSlice(first.key, first)
	c.setSlice(second.key, second)
	all := entriesOf(t, c, web)
	require.Len(t, all, 2, "one is of the Pod alone")
	require.Len(t, all["kubernetes.web"].GetEndpoints(), 2)
	for name, entry := range all {
		require.Empty(t, entry.GetEndpoints()[0].GetLabels(), "%s is healthy", name)
	}
}

func TestProtocolsOfPorts(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		port servicePort
		want string
	}{
		{servicePort{Name: "http"}, "HTTP"},
		{servicePort{Name: "HTTP2-x"}, "HTTP2"},
		{servicePort{Name: "grpc-web"}, "GRPC-WEB"},
		{servicePort{Name: "grpc-web-x"}, "GRPC-WEB"},
		{servicePort{Name: "https-x"}, "HTTPS"},
		{servicePort{Name: "httpx"}, "DETECTED"},
		{servicePort{Name: "http", AppProtocol: "mysql"}, "MYSQL"},
		{servicePort{Name: "http", AppProtocol: "example.com/own"}, "DETECTED"},
		{servicePort{AppProtocol: "kubernetes.io/ws"}, "HTTP"},
		{servicePort{Port: 3306}, "TCP"},
		{servicePort{}, "DETECTED"},
	} {
		require.Equal(t, tt.want, tt.port.protocol(), tt.port)
	}
}

// Whatever order objects come and go in, what is made of them is what would be made of them at once.
func TestRandomOrders(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("the seed is %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	c := testContent()
	made := map[key][]*kinds.Resource{}
	for range 3000 {
		step(c, random)
		for k := range c.touched {
			now, err := c.resources(k)
			require.NoError(t, err)
			registry.KeepSame(made[k], now)
			made[k] = now
		}
		clear(c.touched)
	}
	for n := range 4 {
		k := key{"shop", fmt.Sprint("s", n)}
		want, err := c.resources(k)
		require.NoError(t, err)
		require.Len(t, made[k], len(want))
		for i := range want {
			require.True(t, registry.Same(want[i], made[k][i]), "%s", k)
		}
	}
	for k := range c.services {
		c.setService(k, nil)
	}
	for k := range c.slices {
		c.setSlice(k, nil)
	}
	for k := range c.pods {
		c.setPod(k, nil)
	}
	require.Empty(t, c.pods, "nothing is kept of Pods that are gone")
	require.Empty(t, c.of)
}

// step changes one object, or removes it.
func step(c *content, random *rand.Rand) {
	gone := random.IntN(3) == 0
	name := func(of string, most int) key { return key{"shop", fmt.Sprint(of, random.IntN(most))} }
	switch random.IntN(4) {
	case 0:
		k, o := name("s", 4), (*serviceObject)(nil)
		if !gone {
			o = aService(k.name)
		}
		c.setService(k, o)
	case 1:
		k, o := name("e", 8), (*slice)(nil)
		if !gone {
			o = aSlice(k.name, name("s", 4).name, []slicePort{{"http", 8080}, {"grpc", 8081}})
			for range random.IntN(4) {
				o.endpoints = append(o.endpoints, endpoint{address: fmt.Sprint("10.0.0.", random.IntN(9)), pod: name("p", 5).name, node: name("n", 3).name})
			}
		}
		c.setSlice(k, o)
	case 2:
		k, o := name("p", 5), (*pod)(nil)
		if !gone {
			o = &pod{there: true, labels: map[string]string{"version": fmt.Sprint(random.IntN(3))}, account: "a", member: random.IntN(2) == 0}
		}
		c.setPod(k, o)
	default:
		k, o := key{name: name("n", 3).name}, (*node)(nil)
		if !gone {
			o = &node{region: "eu", zone: fmt.Sprint(random.IntN(3))}
		}
		c.setNode(k, o)
	}
}
