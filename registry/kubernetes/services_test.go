package kubernetes_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	istio "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/internal/testbench/kubetest"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/registry/service"
)

// pod makes a Pod with a sidecar on a node.
func pod(c *kubetest.Cluster, name, node string, more map[string]string) {
	labels := map[string]string{"app": "web", "security.istio.io/tlsMode": "istio"}
	maps.Copy(labels, more)
	c.ApplyPod(kubetest.Pod{Namespace: shop, Name: name, Node: node, Account: "buyer", Labels: labels})
}

func TestPodsAndNodes(t *testing.T) {
	t.Parallel()
	c := kubetest.Start(t)
	c.Namespace(shop)
	c.ApplyNode("one", "eu", "eu-a")
	c.ApplyNode("two", "eu", "eu-b")
	pod(c, "web-1", "one", nil)
	c.ApplyService(kubetest.Service{
		Namespace: shop, Name: "web", Port: 80, Annotations: map[string]string{"networking.istio.io/exportTo": "shop, edge", "else": "x"},
		More: kubetest.Object{"trafficDistribution": "PreferSameNode"},
	})
	slice := kubetest.Slice{Namespace: shop, Name: "web-1", Service: "web", Port: 8080, Endpoints: []kubetest.Endpoint{
		{Address: "10.0.0.1", Pod: "web-1", Node: "one"},
		{Address: "10.0.0.2", Pod: "web-2", Node: "two", NotReady: true},
		{Address: "10.0.0.3", NotReady: true, Serving: true, Terminating: true, Zone: "eu-a"},
		{Address: "10.0.0.4", NotReady: true, Terminating: true},
	}}
	c.ApplySlice(slice)
	w := watch(t, c.Kubeconfig(c.Address, c.Admin()), "namespaces=shop&network=cluster-1&trust-domain=old.example.com")
	w.UntilThere(t, webKey)
	w.Lock()
	r, entry := w.All[webKey], w.entry("shop/kubernetes.web")
	require.Equal(t, map[string]string{"networking.istio.io/traffic-distribution": "PreferSameNode", kinds.OriginEntryAnnotation: "services/shop/web"}, r.Annotations)
	require.Equal(t, []string{"web.shop.svc.cluster.local"}, entry.GetHosts())
	require.Len(t, entry.GetAddresses(), 1, "its ClusterIP")
	require.Equal(t, []string{"shop", "edge"}, entry.GetExportTo())
	require.Equal(t, []string{"spiffe://old.example.com/ns/shop/sa/buyer"}, entry.GetSubjectAltNames())
	require.Len(t, entry.GetEndpoints(), 2, "one is at a Pod that is not known, and one has ended")
	first, second := entry.GetEndpoints()[0], entry.GetEndpoints()[1]
	require.Equal(t, "10.0.0.1 eu/eu-a cluster-1 buyer", first.GetAddress()+" "+first.GetLocality()+" "+first.GetNetwork()+" "+first.GetServiceAccount())
	for key, value := range map[string]string{"app": "web", "security.istio.io/tlsMode": "istio", "kubernetes.io/hostname": "one"} {
		require.Equal(t, value, first.GetLabels()[key])
	}
	require.Equal(t, map[string]uint32{"http": 8080}, first.GetPorts())
	require.Equal(t, map[string]string{kinds.HealthLabel: kinds.HealthUnhealthy}, second.GetLabels(), "it takes requests if nobody else does")
	require.Empty(t, second.GetServiceAccount())
	w.Unlock()

	at := func(i int) *istio.WorkloadEntry {
		all := w.entry("shop/kubernetes.web").GetEndpoints()
		return all[min(i, len(all)-1)]
	}
	pod(c, "web-2", "two", map[string]string{"topology.istio.io/network": "cluster-2"})
	w.Until(t, "the Pod is known", func() bool { return at(1).GetNetwork() == "cluster-2" && at(1).GetLocality() == "eu/eu-b" })
	pod(c, "web-2", "two", map[string]string{"version": "v2"})
	w.Until(t, "the Pod has other labels", func() bool { return at(1).GetLabels()["version"] == "v2" })
	c.ApplyNode("two", "us", "us-a")
	w.Until(t, "the Node is elsewhere", func() bool { return at(1).GetLocality() == "us/us-a" })
	slice.Endpoints[1].NotReady = false
	c.ApplySlice(slice)
	w.Until(t, "it is ready", func() bool { return at(1).GetLabels()[kinds.HealthLabel] == "" })
	c.Delete(kubetest.PodPath(shop, "web-2"))
	w.Until(t, "the Pod is gone", func() bool { return at(1).GetAddress() == "10.0.0.3" })
}

func TestSortsOfServices(t *testing.T) {
	t.Parallel()
	c := kubetest.Start(t)
	c.Namespace(shop)
	ports := []kubetest.Object{
		{"name": "http-api", "port": 80, "targetPort": 8080},
		{"name": "grpc", "port": 81, "targetPort": "grpc"},
		{"name": "other", "port": 82},
		{"name": "said", "port": 83, "appProtocol": "kubernetes.io/h2c"},
		{"name": "dns", "port": 53, "protocol": "UDP"},
	}
	c.ApplyService(kubetest.Service{Namespace: shop, Name: "api", More: kubetest.Object{"ports": ports}})
	c.ApplyService(kubetest.Service{Namespace: shop, Name: "db", Port: 5432, More: kubetest.Object{"clusterIP": "None"}})
	c.ApplySlice(kubetest.Slice{Namespace: shop, Name: "db-1", Service: "db", Port: 5432, Endpoints: []kubetest.Endpoint{
		{Address: "10.0.0.1", Hostname: "db-0"}, {Address: "10.0.0.2", Hostname: "db-1"},
	}})
	c.ApplyService(kubetest.Service{Namespace: shop, Name: "away", More: kubetest.Object{
		"type": "ExternalName", "externalName": "api.example.com", "ports": []kubetest.Object{{"name": "https", "port": 443, "targetPort": 8443}},
	}})
	c.ApplyService(kubetest.Service{Namespace: shop, Name: "udp", More: kubetest.Object{"ports": []kubetest.Object{{"name": "dns", "port": 53, "protocol": "UDP"}, {"name": "dns-tcp", "port": 53}, {"name": "sctp", "port": 54, "protocol": "SCTP"}}}})
	c.ApplySlice(kubetest.Slice{Namespace: shop, Name: "udp-1", Service: "udp", Ports: []kubetest.Object{
		{"name": "dns", "port": 5353, "protocol": "UDP"}, {"name": "dns-tcp", "port": 5354}, {"name": "sctp", "port": 5355, "protocol": "SCTP"},
	}, Endpoints: []kubetest.Endpoint{{Address: "10.0.0.9"}}})
	w := watch(t, c.Kubeconfig(c.Address, c.Admin()), "namespaces=shop&domain=example.internal&name=prod")
	const prefix = "ServiceEntry shop/prod."
	db0, db1 := strings.TrimPrefix(service.Name("prod", "db db-0"), "prod."), strings.TrimPrefix(service.Name("prod", "db db-1"), "prod.")
	w.UntilThere(t, prefix+"api", prefix+"away", prefix+"db", prefix+db0, prefix+db1, prefix+"udp")
	require.Empty(t, w.Wrong)

	protocols := map[string]string{}
	for _, p := range w.entry("shop/prod.api").GetPorts() {
		protocols[p.GetName()] = p.GetProtocol()
	}
	require.Equal(t, map[string]string{"http-api": "HTTP", "grpc": "GRPC", "other": "", "said": "HTTP2", "dns": "UDP"}, protocols)
	require.EqualValues(t, 8080, w.entry("shop/prod.api").GetPorts()[0].GetTargetPort())

	both := w.entry("shop/prod.udp") // UDP and TCP have numbers of their own, SCTP is nothing that proxies know
	require.Equal(t, "dns 53 UDP, dns-tcp 53 TCP", fmt.Sprintf("%s %d %s, %s %d %s", both.GetPorts()[0].GetName(), both.GetPorts()[0].GetNumber(), both.GetPorts()[0].GetProtocol(),
		both.GetPorts()[1].GetName(), both.GetPorts()[1].GetNumber(), both.GetPorts()[1].GetProtocol()))
	require.Len(t, both.GetPorts(), 2)
	require.Equal(t, map[string]uint32{"dns": 5353, "dns-tcp": 5354}, both.GetEndpoints()[0].GetPorts())

	require.Empty(t, w.entry("shop/prod.db").GetAddresses())
	require.Equal(t, []string{"db.shop.svc.example.internal"}, w.entry("shop/prod.db").GetHosts())
	require.Equal(t, []string{"db-1.db.shop.svc.example.internal"}, w.entry("shop/prod."+db1).GetHosts())
	require.Equal(t, "10.0.0.2", w.entry("shop/prod." + db1).GetEndpoints()[0].GetAddress())

	away := w.entry("shop/prod.away")
	require.Equal(t, istio.ServiceEntry_MESH_EXTERNAL, away.GetLocation())
	require.Equal(t, istio.ServiceEntry_DNS, away.GetResolution())
	require.Equal(t, "api.example.com", away.GetEndpoints()[0].GetAddress())
	require.Empty(t, away.GetEndpoints()[0].GetPorts())
	require.Zero(t, away.GetPorts()[0].GetTargetPort(), "DNS has no ports")
}
