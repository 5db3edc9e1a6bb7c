package translate

import (
	"slices"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/pgmesh/pgmesh/discovery/mesh"
)

// originalDestinationCleanup is how often Envoy forgets unused hosts of the local application: never, since there is
// only the one. It is the longest duration that Envoy can count in nanoseconds.
var originalDestinationCleanup = &durationpb.Duration{Seconds: 9223372035}

// inboundClusters has a cluster for each port that the proxy's workload listens on. Without traffic redirection nothing
// comes in through the sidecar.
func (v view) inboundClusters() []*clusterv3.Cluster {
	if !v.intercepted() {
		return nil
	}
	var out []*clusterv3.Cluster
	for _, served := range byListeningPort(v.mesh.Targets(v.proxy)) {
		out = append(out, v.inboundCluster(served))
	}
	return out
}

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
func (v view) inboundCluster(served []mesh.Target) *clusterv3.Cluster {
	first := served[0]
	rule := v.scope.InboundDestinationRule(first.Service.Hostname)
	d := draft{Cluster: &clusterv3.Cluster{
		Name:           InboundClusterName(first.Number),
		AltStatName:    statName(v.inboundStat(first)),
		CommonLbConfig: &clusterv3.Cluster_CommonLbConfig{},
		Metadata:       inboundMetadata(served, rule),
	}}
	policy := v.meshDefaults(portPolicy(specOf(rule).GetTrafficPolicy(), first.Port))
	d.speak(first.Port.Protocol, true)
	v.applyPool(&d, policy.GetConnectionPool())
	limitRetries(d.Cluster, policy.GetRetryBudget())
	v.discoverLocal(d.Cluster, first.Number)
	return d.finish()
}

// discoverLocal finds the application: where the client meant to connect, or, if the mesh says LOCALHOST, on loopback.
func (v view) discoverLocal(c *clusterv3.Cluster, port uint32) {
	if v.config.GetInboundTrafficPolicy().GetMode() == meshconfig.MeshConfig_InboundTrafficPolicy_PASSTHROUGH {
		c.ClusterDiscoveryType = &clusterv3.Cluster_Type{Type: clusterv3.Cluster_ORIGINAL_DST}
		c.LbPolicy = clusterv3.Cluster_CLUSTER_PROVIDED
		c.CleanupInterval = originalDestinationCleanup
		c.UpstreamBindConfig = bindFrom(v.families(passthroughSourceIPv4, passthroughSourceIPv6)[:1])
		return
	}
	c.ClusterDiscoveryType = &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC}
	c.LoadAssignment = &endpointv3.ClusterLoadAssignment{
		ClusterName: c.GetName(),
		Endpoints: []*endpointv3.LocalityLbEndpoints{{LbEndpoints: []*endpointv3.LbEndpoint{{
			HostIdentifier: &endpointv3.LbEndpoint_Endpoint{
				Endpoint: &endpointv3.Endpoint{Address: socketAddress(v.loopbacks()[0], port)},
			},
		}}}},
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
