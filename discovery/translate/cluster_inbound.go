package translate

import (
	"net/netip"
	"slices"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/mesh"
)

// originalDestinationCleanup is how often Envoy forgets unused hosts of the local application: never, since there is
// only the one. It is the longest duration that Envoy can count in nanoseconds.
var originalDestinationCleanup = &durationpb.Duration{Seconds: 9223372035}

// localCluster is the application behind a port of the sidecar.
type localCluster struct {
	port     uint32     // that connections come to
	declared *mesh.Port // as the oldest service or the Sidecar has it
	served   []mesh.Target
	address  *corev3.Address // nil: where the client meant to connect
	loopback bool
}

// inboundClusters has a cluster for each port that the Sidecar names, or, if it names none, that the proxy's workload serves. Without
// traffic redirection only the former come in through the sidecar.
func (v view) inboundClusters() []*clusterv3.Cluster {
	targets := byListeningPort(v.mesh.Targets(v.proxy))
	var out []*clusterv3.Cluster
	if ingress := v.scope.SidecarSpec.GetIngress(); len(ingress) > 0 {
		seen := map[uint32]bool{}
		for _, spec := range ingress {
			if port := spec.GetPort().GetNumber(); !seen[port] {
				seen[port] = true
				out = append(out, v.inboundCluster(v.ingressCluster(spec, targets)))
			}
		}
		return out
	}
	if !v.intercepted() {
		return nil
	}
	for _, served := range targets {
		c := localCluster{port: served[0].Number, declared: served[0].Port, served: served}
		if v.config.GetInboundTrafficPolicy().GetMode() == meshconfig.MeshConfig_InboundTrafficPolicy_LOCALHOST {
			c.address, c.loopback = socketAddress(v.loopbacks()[0], c.port), true
		}
		out = append(out, v.inboundCluster(c))
	}
	return out
}

// ingressCluster is the application that the Sidecar has behind a port; of services there, only the oldest is told of.
func (v view) ingressCluster(spec *networking.IstioIngressListener, targets [][]mesh.Target) localCluster {
	port := spec.GetPort()
	c := localCluster{
		port:     port.GetNumber(),
		declared: &mesh.Port{Name: port.GetName(), Number: port.GetNumber(), Protocol: mesh.ParseProtocol(port.GetProtocol())},
	}
	for _, served := range targets {
		if served[0].Number == c.port {
			c.served = []mesh.Target{{Service: served[0].Service, Port: c.declared, Number: c.port}}
		}
	}
	c.address, c.loopback = v.defaultEndpoint(spec)
	return c
}

// defaultEndpoint is where the application listens: a socket, loopback, the machine's own address (written as the unspecified one), or,
// where nothing is said, what the client meant to connect to. Of a port that clients connect to explicitly that would be the sidecar.
func (v view) defaultEndpoint(spec *networking.IstioIngressListener) (address *corev3.Address, loopback bool) {
	text := spec.GetDefaultEndpoint()
	if mesh.IsSocket(text) {
		return bindAddress(text, 0), false
	}
	if b := v.ingressBinding(spec); text == "" && b.explicit && b.binds[0] == v.proxy.GlobalAddress() {
		return socketAddress(v.loopbacks()[0], spec.GetPort().GetNumber()), true
	}
	at, err := netip.ParseAddrPort(text)
	if err != nil {
		return nil, false
	}
	host := v.localAddress(at.Addr())
	return socketAddress(host.String(), uint32(at.Port())), host.IsLoopback()
}

// localAddress is the machine's own address, or loopback, in the family that is asked for, if the machine has it.
func (v view) localAddress(wanted netip.Addr) netip.Addr {
	if wanted.IsUnspecified() {
		for _, own := range v.proxy.Addresses {
			if ip, err := netip.ParseAddr(own); err == nil && ip.Is4() == wanted.Is4() {
				return ip
			}
		}
		if wanted.Is4() {
			return netip.AddrFrom4([4]byte{127, 0, 0, 1})
		}
		return netip.IPv6Loopback()
	}
	loopbacks := v.loopbacks()
	if slices.Contains(loopbacks, wanted.String()) {
		return wanted
	}
	return netip.MustParseAddr(loopbacks[0])
}

// hostOf is whom telemetry accounts the port to: the oldest service, or the Sidecar.
func (v view) hostOf(local localCluster) string {
	if len(local.served) > 0 {
		return local.served[0].Service.Hostname
	}
	return v.sidecarName()
}

// sidecarName stands for a service where the Sidecar names a port that none has.
func (v view) sidecarName() string { return v.scope.Sidecar.Name + "." + v.scope.Namespace }

// byListeningPort groups targets by the port that the workload listens on, in ascending order of it.
func byListeningPort(targets []mesh.Target) [][]mesh.Target {
	groups := map[uint32][]mesh.Target{}
	var ports []uint32
	for _, t := range targets {
		if groups[t.Number] == nil {
			ports = append(ports, t.Number)
		}
		groups[t.Number] = append(groups[t.Number], t)
	}
	slices.Sort(ports)
	out := make([][]mesh.Target, len(ports))
	for i, port := range ports {
		out[i] = groups[port]
	}
	return out
}

// inboundCluster is for several services on one port of the workload; the oldest decides how it is spoken to.
func (v view) inboundCluster(local localCluster) *clusterv3.Cluster {
	d := draft{Cluster: &clusterv3.Cluster{
		Name: InboundClusterName(local.port), AltStatName: statName(v.inboundStat(local)), CommonLbConfig: &clusterv3.Cluster_CommonLbConfig{},
	}}
	var rule *mesh.DestinationRule
	if len(local.served) > 0 {
		rule = v.scope.InboundDestinationRule(local.served[0].Service.Hostname)
		d.Metadata = inboundMetadata(local.served, rule)
	}
	policy := v.meshDefaults(portPolicy(specOf(rule).GetTrafficPolicy(), local.declared))
	d.speak(local.declared.Protocol, true)
	v.applyPool(&d, orElse(v.inboundPool(local.port), policy.GetConnectionPool()))
	limitRetries(d.Cluster, policy.GetRetryBudget())
	v.discoverLocal(d.Cluster, local)
	return d.finish()
}

// inboundPool is what the Sidecar says of connections to the application, for the port or for all; it takes the place of what rules say.
func (v view) inboundPool(port uint32) *networking.ConnectionPoolSettings {
	for _, ingress := range v.scope.SidecarSpec.GetIngress() {
		if ingress.GetPort().GetNumber() == port && ingress.GetConnectionPool() != nil {
			return ingress.GetConnectionPool()
		}
	}
	return v.scope.SidecarSpec.GetInboundConnectionPool()
}

// discoverLocal finds the application. Connections to other addresses than loopback come from one that the redirection leaves alone.
func (v view) discoverLocal(c *clusterv3.Cluster, local localCluster) {
	if local.address == nil {
		c.ClusterDiscoveryType = &clusterv3.Cluster_Type{Type: clusterv3.Cluster_ORIGINAL_DST}
		c.LbPolicy = clusterv3.Cluster_CLUSTER_PROVIDED
		c.CleanupInterval = originalDestinationCleanup
	} else {
		c.ClusterDiscoveryType = &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC}
		c.LoadAssignment = &endpointv3.ClusterLoadAssignment{
			ClusterName: c.GetName(),
			Endpoints: []*endpointv3.LocalityLbEndpoints{{LbEndpoints: []*endpointv3.LbEndpoint{{
				HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{Address: local.address}},
			}}}},
		}
	}
	if !local.loopback && local.address.GetPipe() == nil { // Envoy could not connect to a socket's path from an IP address
		c.UpstreamBindConfig = bindFrom(v.families(passthroughSourceIPv4, passthroughSourceIPv6))
	}
}

func inboundMetadata(served []mesh.Target, rule *mesh.DestinationRule) *corev3.Metadata {
	fields := map[string]*structpb.Value{}
	if !served[0].Service.External {
		fields["services"] = servicesOn(served[0].Port, served)
	}
	if specOf(rule).GetTrafficPolicy() != nil {
		fields["config"] = structpb.NewStringValue(resourcePath(rule.Resource))
	}
	return istioMetadata(fields)
}

// servicesOn lists, for telemetry, the services that share the first one's service port.
func servicesOn(port *mesh.Port, served []mesh.Target) *structpb.Value {
	list := &structpb.ListValue{}
	seen := map[string]bool{}
	for _, t := range served {
		if t.Port.Number == port.Number && !seen[t.Service.Hostname] {
			seen[t.Service.Hostname] = true
			list.Values = append(list.Values, serviceMetadata(t.Service))
		}
	}
	return structpb.NewListValue(list)
}
