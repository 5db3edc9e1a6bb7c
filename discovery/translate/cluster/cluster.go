// Package cluster makes the clusters of a proxy: what it knows to connect to.
package cluster

import (
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pgmesh/pgmesh/discovery/translate/message"
	"github.com/pgmesh/pgmesh/discovery/translate/naming"
	"github.com/pgmesh/pgmesh/discovery/translate/transport"
	"github.com/pgmesh/pgmesh/discovery/translate/upstream"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
)

// Of returns the clusters of a backend: one for each port of the service, and of each of its
// subsets.
func Of(v view.View, b upstream.Backend) []*clusterv3.Cluster {
	var out []*clusterv3.Cluster
	for _, u := range upstream.All(v, b) {
		if c := cluster(v, u); c != nil {
			out = append(out, c)
		}
	}
	return out
}

// Own returns the clusters beside those of services that a proxy sees: the fixed ones, and those of
// the ports that its workload serves.
func Own(v view.View) []*clusterv3.Cluster {
	out := []*clusterv3.Cluster{blackHole(v)}
	if !v.Sidecar() {
		return out
	}
	out = append(out, passthrough(v))
	if v.ResolvesUnknown() {
		out = append(out, unknownHosts(v))
	}
	out = append(out, inbound(v)...)
	return append(out, inboundPassthrough(v))
}

// cluster returns nil for a service whose names nothing resolves.
func cluster(v view.View, u upstream.Upstream) *clusterv3.Cluster {
	d := draft{Cluster: &clusterv3.Cluster{
		Name:           u.Name(),
		AltStatName:    naming.Stat(upstream.Stat(v, u)),
		CommonLbConfig: &clusterv3.Cluster_CommonLbConfig{},
		Metadata:       metadata(u),
	}}
	if !d.discover(v, u) {
		return nil
	}
	if u.Datagrams {
		d.boundSessions(u.Policy.GetConnectionPool())
		d.applyLocality(v, u)
		d.applyLoadBalancer(u.Policy.GetLoadBalancer())
		return d.finish()
	}
	d.speak(u.Port.Protocol, v.Sidecar())
	if upgradesToHTTP2(u.Policy.GetConnectionPool(), u.Port, v.Config) {
		d.useHTTP2()
	}
	d.applyPool(v, u.Policy.GetConnectionPool())
	d.limitRetries(u.Policy.GetRetryBudget())
	d.applyOutlier(u.Policy.GetOutlierDetection())
	if d.dynamic == nil {
		d.applyLocality(v, u)
		d.applyLoadBalancer(u.Policy.GetLoadBalancer())
		d.letPick(u.Service.Pool)
	}
	d.secure(v, u)
	if !u.PassesTLS {
		d.announceClient(u.Policy.GetProxyProtocol())
	}
	return d.finish()
}

// metadata tells telemetry which service, subset and rule a cluster stands for.
func metadata(u upstream.Upstream) *corev3.Metadata {
	fields := map[string]*structpb.Value{}
	if !upstream.IsDynamic(u.Service) {
		fields["services"] = structpb.NewListValue(&structpb.ListValue{Values: []*structpb.Value{message.ServiceMetadata(u.Service)}})
	}
	if u.Service.External && u.Subset == nil {
		fields["external"] = structpb.NewBoolValue(true)
	}
	if u.Rule != nil {
		fields["config"] = structpb.NewStringValue(message.PathOf(u.Rule.Resource))
	}
	if transport.Originates(u.Policy.GetTls().GetMode()) {
		fields["alpn_override"] = structpb.NewStringValue("false")
	}
	if u.Subset != nil {
		fields["subset"] = structpb.NewStringValue(u.Subset.GetName())
	}
	return message.Metadata(fields)
}
