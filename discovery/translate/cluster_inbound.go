package translate

import (
	"cmp"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/binding"
	"github.com/pgmesh/pgmesh/discovery/translate/message"
	"github.com/pgmesh/pgmesh/discovery/translate/naming"
	"github.com/pgmesh/pgmesh/discovery/translate/upstream"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
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
func inboundClusters(v view.View) []*clusterv3.Cluster {
	targets := binding.ByListeningPort(v.Mesh.Targets(v.Proxy))
	var out []*clusterv3.Cluster
	if ingress := v.Scope.SidecarSpec.GetIngress(); len(ingress) > 0 {
		seen := map[uint32]bool{}
		for _, spec := range ingress {
			if port := spec.GetPort().GetNumber(); !seen[port] {
				seen[port] = true
				out = append(out, inboundCluster(v, ingressCluster(v, spec, targets)))
			}
		}
		return out
	}
	if !v.Intercepted() {
		return nil
	}
	for _, served := range targets {
		c := localCluster{port: served[0].Number, declared: served[0].Port, served: served}
		if v.Config.GetInboundTrafficPolicy().GetMode() == meshconfig.MeshConfig_InboundTrafficPolicy_LOCALHOST {
			c.address, c.loopback = message.SocketAddress(v.Loopbacks()[0], c.port), true
		}
		out = append(out, inboundCluster(v, c))
	}
	return out
}

// ingressCluster is the application that the Sidecar has behind a port; of services there, only the oldest is told of.
func ingressCluster(v view.View, spec *networking.IstioIngressListener, targets [][]mesh.Target) localCluster {
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
	c.address, c.loopback = binding.DefaultEndpoint(v, spec)
	return c
}

// hostOf is whom telemetry accounts the port to: the oldest service, or the Sidecar.
func hostOf(v view.View, local localCluster) string {
	if len(local.served) > 0 {
		return local.served[0].Service.Hostname
	}
	return binding.SidecarName(v)
}

// inboundCluster is for several services on one port of the workload; the oldest decides how it is spoken to.
func inboundCluster(v view.View, local localCluster) *clusterv3.Cluster {
	d := draft{Cluster: &clusterv3.Cluster{
		Name: naming.InboundCluster(local.port), AltStatName: naming.Stat(inboundStat(v, local)), CommonLbConfig: &clusterv3.Cluster_CommonLbConfig{},
	}}
	var rule *mesh.DestinationRule
	if len(local.served) > 0 {
		rule = v.Scope.InboundDestinationRule(local.served[0].Service.Hostname)
		d.Metadata = inboundMetadata(local.served, rule)
	}
	policy := upstream.WithDefaults(v, upstream.PortPolicy(upstream.SpecOf(rule).GetTrafficPolicy(), local.declared))
	d.speak(local.declared.Protocol, true)
	applyPool(v, &d, cmp.Or(inboundPool(v, local.port), policy.GetConnectionPool()))
	limitRetries(d.Cluster, policy.GetRetryBudget())
	discoverLocal(v, d.Cluster, local)
	return d.finish()
}

// inboundPool is what the Sidecar says of connections to the application, for the port or for all; it takes the place of what rules say.
func inboundPool(v view.View, port uint32) *networking.ConnectionPoolSettings {
	for _, ingress := range v.Scope.SidecarSpec.GetIngress() {
		if ingress.GetPort().GetNumber() == port && ingress.GetConnectionPool() != nil {
			return ingress.GetConnectionPool()
		}
	}
	return v.Scope.SidecarSpec.GetInboundConnectionPool()
}

// discoverLocal finds the application. Connections to other addresses than loopback come from one that the redirection leaves alone.
func discoverLocal(v view.View, c *clusterv3.Cluster, local localCluster) {
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
		c.UpstreamBindConfig = bindFrom(v.Families(passthroughSourceIPv4, passthroughSourceIPv6))
	}
}

func inboundMetadata(served []mesh.Target, rule *mesh.DestinationRule) *corev3.Metadata {
	fields := map[string]*structpb.Value{}
	if !served[0].Service.External {
		fields["services"] = servicesOn(served[0].Port, served)
	}
	if upstream.SpecOf(rule).GetTrafficPolicy() != nil {
		fields["config"] = structpb.NewStringValue(message.PathOf(rule.Resource))
	}
	return message.Metadata(fields)
}

// servicesOn lists, for telemetry, the services that share the first one's service port.
func servicesOn(port *mesh.Port, served []mesh.Target) *structpb.Value {
	list := &structpb.ListValue{}
	seen := map[string]bool{}
	for _, t := range served {
		if t.Port.Number == port.Number && !seen[t.Service.Hostname] {
			seen[t.Service.Hostname] = true
			list.Values = append(list.Values, message.ServiceMetadata(t.Service))
		}
	}
	return structpb.NewListValue(list)
}
