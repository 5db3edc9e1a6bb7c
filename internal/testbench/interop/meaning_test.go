package interop

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	httpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pgmesh/pgmesh/internal/testbench/kubetest"
	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/internal/testbench/poll"
	"github.com/pgmesh/pgmesh/internal/testbench/stack"
)

const assignments = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"

// clusterServices are Services of each sort, with what serves them.
func clusterServices(c *kubetest.Cluster) {
	c.Namespace("istio-system")
	c.Namespace("shop")
	c.ApplyNode("a", "eu", "eu-a")
	c.ApplyNode("b", "eu", "eu-b")
	for i, p := range []struct{ name, node, version, tls string }{
		{"web-1", "a", "v1", "istio"}, {"web-2", "b", "v2", "istio"}, {"web-3", "b", "v2", "istio"}, {"old-1", "a", "v1", "disabled"},
	} {
		running(c, p.name, p.node, fmt.Sprintf("10.0.0.%d", i+1), map[string]string{"app": p.name[:3], "version": p.version, "security.istio.io/tlsMode": p.tls})
	}
	web := []kubetest.Endpoint{{Address: "10.0.0.1", Pod: "web-1", Node: "a"}, {Address: "10.0.0.2", Pod: "web-2", Node: "b"}, {Address: "10.0.0.3", Pod: "web-3", Node: "b", NotReady: true}}
	service := func(name, port, protocol string, more kubetest.Object) {
		spec := kubetest.Object{"ports": []kubetest.Object{{"name": port, "port": 80, "targetPort": 8080, "appProtocol": protocol}}}
		if protocol == "" {
			spec = kubetest.Object{"ports": []kubetest.Object{{"name": port, "port": 80, "targetPort": 8080}}}
		}
		maps.Copy(spec, more)
		c.ApplyService(kubetest.Service{Namespace: "shop", Name: name, More: spec})
	}
	serves := func(name, port string, endpoints ...kubetest.Endpoint) {
		c.ApplySlice(kubetest.Slice{Namespace: "shop", Name: name + "-1", Service: name, PortName: port, Port: 8080, Endpoints: endpoints})
	}
	service("web", "http", "", kubetest.Object{"selector": kubetest.Object{"app": "web"}})
	serves("web", "http", web...)
	service("said", "port", "grpc", nil)
	serves("said", "port", web...)
	service("raw", "tcp", "", nil)
	serves("raw", "tcp", web...)
	service("unsaid", "port", "", nil)
	serves("unsaid", "port", web...)
	service("near", "http", "", kubetest.Object{"trafficDistribution": "PreferSameZone"})
	serves("near", "http", web...)
	service("old", "http", "", nil)
	serves("old", "http", kubetest.Endpoint{Address: "10.0.0.4", Pod: "old-1", Node: "a"})
	service("api", "http", "", kubetest.Object{"selector": kubetest.Object{"app": "api"}})
	serves("api", "http")
	machine(c, "api-1", kubetest.Object{"address": "10.1.0.1", "labels": kubetest.Object{"app": "api"}, "serviceAccount": "api", "locality": "eu/eu-a"})
	machine(c, "api-2", kubetest.Object{"address": "10.1.0.2", "labels": kubetest.Object{"app": "api"}, "ports": kubetest.Object{"http": 9090}, "weight": 3})
	machine(c, "web-9", kubetest.Object{"address": "10.1.0.9", "labels": kubetest.Object{"app": "web", "version": "v2"}, "serviceAccount": "web"})
	c.Apply("/apis/networking.istio.io/v1/namespaces/shop/destinationrules/web", kubetest.Object{
		"apiVersion": "networking.istio.io/v1", "kind": "DestinationRule", "metadata": kubetest.Object{"name": "web"},
		"spec": kubetest.Object{"host": "web", "subsets": []kubetest.Object{
			{"name": "v1", "labels": kubetest.Object{"version": "v1"}}, {"name": "v2", "labels": kubetest.Object{"version": "v2"}},
		}},
	})
}

// running makes a Pod that has an address.
func running(c *kubetest.Cluster, name, node, ip string, labels map[string]string) {
	c.ApplyPod(kubetest.Pod{Namespace: "shop", Name: name, Node: node, Account: "web", Labels: labels})
	c.ApplyStatus(kubetest.PodPath("shop", name), kubetest.Object{
		"apiVersion": "v1", "kind": "Pod", "metadata": kubetest.Object{"name": name},
		"status": kubetest.Object{
			"phase": "Running", "podIP": ip, "podIPs": []kubetest.Object{{"ip": ip}},
			"conditions": []kubetest.Object{{"type": "Ready", "status": "True"}},
		},
	})
}

func machine(c *kubetest.Cluster, name string, spec kubetest.Object) {
	c.Apply("/apis/networking.istio.io/v1/namespaces/shop/workloadentries/"+name, kubetest.Object{
		"apiVersion": "networking.istio.io/v1", "kind": "WorkloadEntry", "metadata": kubetest.Object{"name": name}, "spec": spec,
	})
}

// Services of a cluster mean the same to a sidecar under istiod and to one under pgmesh.
func TestServicesOfAClusterMeanTheSame(t *testing.T) {
	t.Parallel()
	if istiod == "" {
		t.Skip("no istiod: make from-istio builds one, which takes minutes the first time, and runs this test")
	}
	c := kubetest.Start(t)
	c.InstallIstio()
	clusterServices(c)
	control, err := stack.New(bin, t.TempDir(), pgtest.New(t))
	require.NoError(t, err)
	kubeconfig := c.Kubeconfig(c.Address, c.Admin())
	control.ServerFlags("--registry", "kubernetes://"+kubeconfig)
	require.NoError(t, control.Start(t.Context()))
	t.Cleanup(control.Stop)
	theirs, err := control.IstiodOf(istiod, kubeconfig)
	require.NoError(t, err)
	require.NoError(t, theirs.Start())
	t.Cleanup(func() {
		theirs.Stop()
		if t.Failed() {
			t.Logf("istiod's log:\n%s\nmcp-server's log:\n%s", theirs.Log(), control.MCPServer.Log())
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	t.Cleanup(cancel)
	require.NoError(t, theirs.Ready(ctx))
	for _, name := range []string{
		"|web", "v1|web", "v2|web", "|said", "|raw", "|unsaid", "|near", "|old", "|api",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			poll.Eventually(t, func(ctx context.Context) error { return sameMeaning(ctx, name, theirs.Plain, control.XDS) })
		})
	}
}

// sameMeaning complains unless two control planes say the same of a cluster.
func sameMeaning(ctx context.Context, name, one, other string) error {
	subset, service, _ := strings.Cut(name, "|")
	cluster := "outbound|80|" + subset + "|" + service + ".shop.svc.cluster.local"
	var said [2]string
	for i, server := range []string{one, other} {
		var err error
		if said[i], err = meaning(ctx, server, cluster); err != nil {
			return fmt.Errorf("ask %s: %w", server, err)
		}
	}
	if said[0] != said[1] {
		return fmt.Errorf("of %s istiod says\n%s\nand pgmesh\n%s", cluster, said[0], said[1])
	}
	return nil
}

// sidecarOf is the node of a proxy in the zone eu-a.
func sidecarOf() (*corev3.Node, error) {
	metadata, err := structpb.NewStruct(map[string]any{"NAMESPACE": "shop", "INTERCEPTION_MODE": "REDIRECT", "ISTIO_VERSION": "1.31.0", "CLUSTER_ID": "Kubernetes"})
	return &corev3.Node{
		Id: "sidecar~10.2.0.1~client.shop~shop.svc.cluster.local", Metadata: metadata, Locality: &corev3.Locality{Region: "eu", Zone: "eu-a"},
	}, err
}

// meaning is what a control plane says of a cluster and its endpoints, in words.
func meaning(ctx context.Context, server, name string) (string, error) {
	conn, err := grpc.NewClient(server, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return "", err
	}
	defer conn.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).StreamAggregatedResources(ctx)
	if err != nil {
		return "", err
	}
	node, err := sidecarOf()
	if err != nil {
		return "", err
	}
	answer, err := ask(stream, &discoveryv3.DiscoveryRequest{TypeUrl: clusters, Node: node})
	if err != nil {
		return "", err
	}
	for _, r := range answer.GetResources() {
		var c clusterv3.Cluster
		if err := r.UnmarshalTo(&c); err != nil {
			return "", err
		}
		if c.GetName() == name {
			return describe(stream, &c)
		}
	}
	return "there is none", nil
}

type adsClient = discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesClient

func ask(stream adsClient, request *discoveryv3.DiscoveryRequest) (*discoveryv3.DiscoveryResponse, error) {
	if err := stream.Send(request); err != nil {
		return nil, err
	}
	for {
		answer, err := stream.Recv()
		if err != nil || answer.GetTypeUrl() == request.GetTypeUrl() {
			return answer, err
		}
	}
}

func describe(stream adsClient, c *clusterv3.Cluster) (string, error) {
	lines := []string{"type " + c.GetType().String()}
	if text, err := protocolOf(c); err != nil {
		return "", err
	} else if text != "" {
		lines = append(lines, text)
	}
	load := c.GetLoadAssignment()
	if c.GetType() == clusterv3.Cluster_EDS {
		answer, err := ask(stream, &discoveryv3.DiscoveryRequest{TypeUrl: assignments, ResourceNames: []string{c.GetName()}})
		if err != nil {
			return "", err
		}
		load = &endpointv3.ClusterLoadAssignment{}
		if len(answer.GetResources()) > 0 {
			if err := answer.GetResources()[0].UnmarshalTo(load); err != nil {
				return "", err
			}
		}
	}
	endpoints := endpointLines(load)
	for _, m := range c.GetTransportSocketMatches() {
		text, err := socketOf(m)
		if err != nil {
			return "", err
		}
		if mode := strings.TrimPrefix(m.GetName(), "tlsMode-"); slices.ContainsFunc(endpoints, func(e string) bool { return strings.HasSuffix(e, "tls "+mode) }) {
			lines = append(lines, text) // istiod has the names of all, also of those that take no TLS
		}
	}
	return strings.Join(append(lines, endpoints...), "\n"), nil
}

// protocolOf says which HTTP Envoy speaks there.
func protocolOf(c *clusterv3.Cluster) (string, error) {
	options, said := c.GetTypedExtensionProtocolOptions()["envoy.extensions.upstreams.http.v3.HttpProtocolOptions"]
	if !said {
		return "", nil
	}
	var http httpv3.HttpProtocolOptions
	if err := options.UnmarshalTo(&http); err != nil {
		return "", err
	}
	switch {
	case http.GetUseDownstreamProtocolConfig() != nil:
		return "HTTP as it comes", nil
	case http.GetExplicitHttpConfig().GetHttp2ProtocolOptions() != nil:
		return "HTTP/2", nil
	}
	return "HTTP/1.1", nil
}

// socketOf says how Envoy connects to endpoints of a sort, and who has to answer.
func socketOf(m *clusterv3.Cluster_TransportSocketMatch) (string, error) {
	if m.GetTransportSocket().GetName() != "envoy.transport_sockets.tls" {
		return m.GetName() + ": plaintext", nil
	}
	var tls tlsv3.UpstreamTlsContext
	if err := m.GetTransportSocket().GetTypedConfig().UnmarshalTo(&tls); err != nil {
		return "", err
	}
	var names []string
	verified := tls.GetCommonTlsContext().GetCombinedValidationContext().GetDefaultValidationContext()
	for _, san := range verified.GetMatchTypedSubjectAltNames() {
		names = append(names, san.GetMatcher().GetExact())
	}
	for _, san := range verified.GetMatchSubjectAltNames() { //nolint:staticcheck // istiod uses it
		names = append(names, san.GetExact())
	}
	slices.Sort(names)
	return fmt.Sprintf("%s: TLS, %s, by %v", m.GetName(), tls.GetSni(), names), nil
}

// healthOf is the health of an endpoint as Envoy takes it: nobody has to say that one is well.
func healthOf(e *endpointv3.LbEndpoint) corev3.HealthStatus {
	if e.GetHealthStatus() == corev3.HealthStatus_UNKNOWN {
		return corev3.HealthStatus_HEALTHY
	}
	return e.GetHealthStatus()
}

// endpointLines has a line for each endpoint, in order.
func endpointLines(load *endpointv3.ClusterLoadAssignment) (lines []string) {
	for _, l := range load.GetEndpoints() {
		for _, e := range l.GetLbEndpoints() {
			at := e.GetEndpoint().GetAddress().GetSocketAddress()
			lines = append(lines, fmt.Sprintf("%s:%d %s priority %d in %s/%s weight %d tls %s", at.GetAddress(), at.GetPortValue(), healthOf(e), l.GetPriority(),
				l.GetLocality().GetRegion(), l.GetLocality().GetZone(), e.GetLoadBalancingWeight().GetValue(),
				e.GetMetadata().GetFilterMetadata()["envoy.transport_socket_match"].GetFields()["tlsMode"].GetStringValue()))
		}
	}
	slices.Sort(lines)
	return lines
}
