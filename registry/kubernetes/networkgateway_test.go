package kubernetes

import (
	"testing"

	"github.com/stretchr/testify/require"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/registry/service"
)

// aGateway is a Service that leads to the network prod.
func aGateway(of string) *serviceObject {
	o := &serviceObject{}
	o.Metadata.Namespace, o.Metadata.Name = kinds.MeshNamespace, "gateway"
	o.Metadata.Labels = map[string]string{networkLabel: "prod", "app": "gateway"}
	o.Spec.Type, o.Spec.IPFamilies = of, []string{"IPv4"}
	o.Spec.Ports = []servicePort{{Name: "tls", Port: 15443, NodePort: 31443}}
	return o
}

// atNodes has a gateway be reached at nodes with this label.
func atNodes(selector string) *serviceObject {
	o := aGateway(nodePort)
	o.Metadata.Annotations = map[string]string{nodeSelectorAnnotation: selector}
	return o
}

func at(entry *networking.ServiceEntry) (out []string) {
	for _, e := range entry.GetEndpoints() {
		out = append(out, e.GetAddress())
	}
	return out
}

func TestGatewaysOfNetworks(t *testing.T) {
	t.Parallel()
	balanced := aGateway(loadBalancer)
	balanced.Status.LoadBalancer.Ingress = []ingress{{IP: "192.0.2.2"}, {Hostname: "gateway.example.com"}, {}}
	balanced.Spec.ExternalIPs = []string{"192.0.2.1", "192.0.2.2"}
	elsewhere := aGateway(loadBalancer)
	elsewhere.Metadata.Namespace = "shop"
	for name, c := range map[string]struct {
		o    *serviceObject
		want []string
		port uint32
	}{
		"a load balancer, with externalIPs":   {balanced, []string{"192.0.2.1", "192.0.2.2", "gateway.example.com"}, 0},
		"a load balancer without an address":  {aGateway(loadBalancer), nil, 0},
		"nodes":                               {atNodes(`{"edge": "yes"}`), []string{"198.51.100.1", "198.51.100.2"}, 31443},
		"no such nodes":                       {atNodes(`{"edge": "no"}`), nil, 0},
		"nodes that nobody has selected":      {aGateway(nodePort), nil, 0},
		"in another namespace":                {elsewhere, nil, 0},
		"a Service within the cluster":        {aGateway("ClusterIP"), nil, 0},
		"a Service within it, with addresses": {func() *serviceObject { o := aGateway(""); o.Spec.ExternalIPs = []string{"192.0.2.9"}; return o }(), []string{"192.0.2.9"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			content := testContent()
			for name, outer := range map[string]string{"a": "198.51.100.1", "b": "198.51.100.2", "c": ""} {
				content.setNode(key{name: name}, &node{outer: outer, labels: map[string]string{"edge": "yes"}})
			}
			k := c.o.Metadata.key()
			content.setService(k, leanService(c.o))
			all := entriesOf(t, content, k)
			gateway, found := all["kubernetes.gateway.network"]
			require.Equal(t, c.o.leads(), found)
			require.Equal(t, c.want, at(gateway))
			for _, e := range gateway.GetEndpoints() {
				require.Equal(t, c.port, e.GetPorts()["tls"])
			}
		})
	}
}

// What leads to a network is found by its label, which the Service's own entry has no more: nobody
// outside reaches its Pods.
func TestTheLabelOfANetworkIsThatOfItsGateway(t *testing.T) {
	t.Parallel()
	c := testContent()
	o := aGateway(loadBalancer)
	o.Metadata.Labels[gatewayPortLabel] = "15444"
	o.Status.LoadBalancer.Ingress = []ingress{{IP: "192.0.2.1"}}
	k := o.Metadata.key()
	c.setService(k, leanService(o))
	all, err := c.resources(k)
	require.NoError(t, err)
	require.Len(t, all, 2)
	require.Equal(t, map[string]string{"app": "gateway", gatewayPortLabel: "15444"}, all[0].Labels)
	require.Equal(t, "prod", all[1].Labels[networkLabel])
	gateway := all[1].Spec.Message().(*networking.ServiceEntry)
	require.Equal(t, []string{"gateway.kubernetes.networks.mesh"}, gateway.GetHosts())
	require.Equal(t, []string{"."}, gateway.GetExportTo())
	require.EqualValues(t, 15444, gateway.GetPorts()[0].GetNumber())
}

// A load balancer may answer while no Pod is behind it.
func TestAGatewayWithoutAReadyPodIsUnwell(t *testing.T) {
	t.Parallel()
	c := testContent()
	o := aGateway(loadBalancer)
	o.Status.LoadBalancer.Ingress = []ingress{{IP: "192.0.2.1"}}
	k := o.Metadata.key()
	c.setService(k, leanService(o))
	health := func() string {
		return entriesOf(t, c, k)["kubernetes.gateway.network"].GetEndpoints()[0].GetLabels()[kinds.HealthLabel]
	}
	require.Empty(t, health(), "nobody has said how its Pods are")
	s := aSlice("gateway-1", "gateway", nil, "10.0.0.1", "10.0.0.2")
	s.key.namespace, s.service.namespace = k.namespace, k.namespace
	s.endpoints[0].health, s.endpoints[1].health = service.Unhealthy, service.Unhealthy
	c.setSlice(s.key, s)
	require.Equal(t, kinds.HealthUnhealthy, health())
	ready := *s
	ready.endpoints = []endpoint{s.endpoints[0], {address: "10.0.0.2"}}
	c.setSlice(s.key, &ready)
	require.Empty(t, health())
}

func TestNodesOfGatewaysAreFollowed(t *testing.T) {
	t.Parallel()
	c := testContent()
	o := atNodes(`{"edge": "yes"}`)
	k := o.Metadata.key()
	c.setService(k, leanService(o))
	clear(c.touched)
	c.setNode(key{name: "a"}, &node{outer: "198.51.100.1", labels: map[string]string{"edge": "yes"}})
	require.True(t, c.touched[k])
	require.Equal(t, []string{"198.51.100.1"}, at(entriesOf(t, c, k)["kubernetes.gateway.network"]))

	broken := atNodes("edge=yes")
	c.setService(k, leanService(broken))
	_, err := c.resources(k)
	require.ErrorContains(t, err, nodeSelectorAnnotation)
}

// A Service selects WorkloadEntries by its annotation, once, whatever else is made of it; one of a set
// says so, but for what each cluster has for itself.
func TestWhatAServiceSelectsAndItsSet(t *testing.T) {
	t.Parallel()
	c := testContent()
	c.set = "shops"
	web := key{"shop", "web"}
	o := aService("web")
	o.Spec.Selector = map[string]string{"tier": "front", "app": "web"}
	o.Spec.ClusterIP = headless
	c.setService(web, leanService(o))
	s := aSlice("a", "web", []slicePort{{"grpc", 9081}}, "10.0.0.2")
	s.endpoints[0].hostname = "web-0"
	c.setSlice(s.key, s)
	all, err := c.resources(web)
	require.NoError(t, err)
	require.Len(t, all, 3)
	for i, want := range []string{"app=web,tier=front", "", ""} {
		require.Equal(t, want, all[i].Annotations[kinds.SelectorAnnotation], all[i].Name)
		require.Equal(t, "shops", all[i].Annotations[kinds.OriginSetAnnotation], all[i].Name)
	}

	for of, want := range map[key]string{{"default", "kubernetes"}: "", {"kube-system", "web"}: "", {"default", "web"}: "shops"} {
		o := aService(of.name)
		o.Metadata.Namespace = of.namespace
		c.setService(of, leanService(o))
		all, err := c.resources(of)
		require.NoError(t, err)
		require.Equal(t, want, all[0].Annotations[kinds.OriginSetAnnotation], of)
	}
}
