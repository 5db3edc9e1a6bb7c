package cluster

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

// originalDestinationCleanup is how often Envoy forgets unused hosts of the local application:
// never, since there is only the one. It is the longest duration that Envoy can count in
// nanoseconds.
var originalDestinationCleanup = &durationpb.Duration{Seconds: 9223372035}

// application is what is behind a port of the sidecar.
type application struct {
	port     uint32     // that connections come to
	declared *mesh.Port // as the oldest service or the Sidecar has it
	served   []mesh.Target
	address  *corev3.Address // nil: where the client meant to connect
	loopback bool
}

// inbound has a cluster for each port that the Sidecar names or, if it names none, that the proxy's
// workload serves. The latter come in through the sidecar only if traffic is redirected.
func inbound(v view.View) []*clusterv3.Cluster {
	targets := binding.ByListeningPort(v.Mesh.Targets(v.Proxy))
	var out []*clusterv3.Cluster
	if ingress := v.Scope.SidecarSpec.GetIngress(); len(ingress) > 0 {
		seen := map[uint32]bool{}
		for _, spec := range ingress {
			if port := spec.GetPort().GetNumber(); !seen[port] {
				seen[port] = true
				out = append(out, behindIngress(v, spec, targets).cluster(v))
			}
		}
		return out
	}
	if !v.Intercepted() {
		return nil
	}
	for _, served := range targets {
		a := application{port: served[0].Number, declared: served[0].Port, served: served}
		if v.Config.GetInboundTrafficPolicy().GetMode() == meshconfig.MeshConfig_InboundTrafficPolicy_LOCALHOST {
			a.address, a.loopback = message.SocketAddress(v.Loopbacks()[0], a.port), true
		}
		out = append(out, a.cluster(v))
	}
	return out
}

// behindIngress is the application that the Sidecar has behind a port. Of the services there,
// telemetry is told only of the oldest.
func behindIngress(v view.View, spec *networking.IstioIngressListener, targets [][]mesh.Target) application {
	port := spec.GetPort()
	a := application{
		port:     port.GetNumber(),
		declared: &mesh.Port{Name: port.GetName(), Number: port.GetNumber(), Protocol: mesh.ParseProtocol(port.GetProtocol())},
	}
	for _, served := range targets {
		if served[0].Number == a.port {
			a.served = []mesh.Target{{Service: served[0].Service, Port: a.declared, Number: a.port}}
		}
	}
	a.address, a.loopback = binding.DefaultEndpoint(v, spec)
	return a
}

// host is whom telemetry accounts the port to: the oldest service, or the Sidecar.
func (a application) host(v view.View) string {
	if len(a.served) > 0 {
		return a.served[0].Service.Hostname
	}
	return binding.SidecarName(v)
}

// cluster is for all services on the port. The oldest decides how it is spoken to.
func (a application) cluster(v view.View) *clusterv3.Cluster {
	d := draft{Cluster: &clusterv3.Cluster{
		Name: naming.InboundCluster(a.port), AltStatName: naming.Stat(a.stat(v)), CommonLbConfig: &clusterv3.Cluster_CommonLbConfig{},
	}}
	var rule *mesh.DestinationRule
	if len(a.served) > 0 {
		rule = v.Scope.InboundDestinationRule(a.served[0].Service.Hostname)
		d.Metadata = inboundMetadata(a.served, rule)
	}
	policy := upstream.WithDefaults(v, upstream.PortPolicy(upstream.SpecOf(rule).GetTrafficPolicy(), a.declared))
	d.speak(a.declared.Protocol, true)
	d.applyPool(v, cmp.Or(inboundPool(v, a.port), policy.GetConnectionPool()))
	d.limitRetries(policy.GetRetryBudget())
	d.discoverApplication(v, a)
	return d.finish()
}

// inboundPool is what the Sidecar says of connections to the application, for the port or for all.
// It replaces what rules say.
func inboundPool(v view.View, port uint32) *networking.ConnectionPoolSettings {
	for _, ingress := range v.Scope.SidecarSpec.GetIngress() {
		if ingress.GetPort().GetNumber() == port && ingress.GetConnectionPool() != nil {
			return ingress.GetConnectionPool()
		}
	}
	return v.Scope.SidecarSpec.GetInboundConnectionPool()
}

// discoverApplication finds the application. Connections to other addresses than loopback come from
// one that the redirection leaves alone.
func (d *draft) discoverApplication(v view.View, a application) {
	if a.address == nil {
		d.ClusterDiscoveryType = &clusterv3.Cluster_Type{Type: clusterv3.Cluster_ORIGINAL_DST}
		d.LbPolicy = clusterv3.Cluster_CLUSTER_PROVIDED
		d.CleanupInterval = originalDestinationCleanup
	} else {
		d.ClusterDiscoveryType = &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC}
		d.LoadAssignment = &endpointv3.ClusterLoadAssignment{
			ClusterName: d.GetName(),
			Endpoints: []*endpointv3.LocalityLbEndpoints{{LbEndpoints: []*endpointv3.LbEndpoint{{
				HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{Address: a.address}},
			}}}},
		}
	}
	if !a.loopback && a.address.GetPipe() == nil { // Envoy could not connect to a socket's path from an IP address
		d.UpstreamBindConfig = bindFrom(v.Families(passthroughSourceIPv4, passthroughSourceIPv6))
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

// servicesOn lists, for telemetry, the services with a port of that number.
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

// stat is what statistics call the cluster: its name, unless the mesh has a pattern for it.
func (a application) stat(v view.View) string {
	pattern := v.Config.GetInboundClusterStatName()
	if pattern == "" {
		return naming.InboundCluster(a.port)
	}
	return naming.FillStat(pattern, a.host(v), "", a.declared, a.port)
}
