package envoyfilter

import (
	"slices"
	"strconv"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/mesh"
)

// Clusters applies the patches of clusters.
func (p *Patcher) Clusters(clusters []*clusterv3.Cluster) []*clusterv3.Cluster {
	if !p.Patches(networking.EnvoyFilter_CLUSTER) {
		return clusters
	}
	served := p.served()
	out := make([]*clusterv3.Cluster, 0, len(clusters))
	names := make(map[string]bool, len(clusters)) // names that a patch may not give to another cluster
	for _, c := range clusters {
		names[c.GetName()] = true
	}
	keep := func(c *clusterv3.Cluster) {
		names[c.GetName()] = true
		out = append(out, c)
	}
	for _, c := range clusters {
		identity := nameParts(c.GetName(), served)
		apply := func(e *edit, c *clusterv3.Cluster) (*clusterv3.Cluster, bool) { return e.cluster(c, identity) }
		patched, there := applyPatches(p, c.GetName(), p.context(identity.inbound), p.patches.of(networking.EnvoyFilter_CLUSTER), c, apply)
		switch {
		case !there:
		case patched.GetName() != c.GetName() && names[patched.GetName()]:
			p.twice(c, patched.GetName())
			keep(c)
		default:
			keep(patched)
		}
	}
	for _, context := range p.contexts() {
		for _, patch := range p.patches[networking.EnvoyFilter_CLUSTER] {
			switch added, _ := patch.Value.(*clusterv3.Cluster); {
			case !adds(patch, context):
			case names[added.GetName()]:
				p.fail(patch, added.GetName(), "there is a cluster of this name")
			default:
				keep(added)
			}
		}
	}
	return out
}

// twice records that a patch gives a cluster the name of another.
func (p *Patcher) twice(c *clusterv3.Cluster, name string) {
	for _, patch := range p.patches[networking.EnvoyFilter_CLUSTER] {
		if value, _ := patch.Value.(*clusterv3.Cluster); patch.Merges() && value.GetName() == name {
			p.fail(patch, c.GetName(), "there would be two clusters "+name)
		}
	}
}

// served returns the hosts that the proxy's workload serves on each of its ports. Names of inbound
// clusters do not have them.
func (p *Patcher) served() map[int][]string {
	out := map[int][]string{}
	for _, t := range p.mesh.Targets(p.proxy) {
		if !t.TakesDatagrams() {
			out[int(t.Number)] = append(out[int(t.Number)], t.Service.Hostname)
		}
	}
	return out
}

// clusterIdentity is what a patch can select a cluster by, besides its name.
type clusterIdentity struct {
	inbound bool
	hosts   []string
	subset  string
	port    int
}

// nameParts reads direction|port|subset|host. What a cluster shows to its endpoints is no part of its
// subset. Other names have no parts.
func nameParts(name string, served map[int][]string) clusterIdentity {
	parts := strings.Split(name, "|")
	if len(parts) < 4 {
		return clusterIdentity{inbound: name == "InboundPassthroughCluster"}
	}
	port, _ := strconv.Atoi(strings.TrimSuffix(parts[1], "_"))
	subset, _, _ := strings.Cut(parts[2], "~")
	identity := clusterIdentity{inbound: strings.TrimSuffix(parts[0], "_.") == "inbound", subset: subset, hosts: []string{parts[3]}, port: port}
	if hosts := served[port]; identity.inbound && len(hosts) > 0 {
		identity.hosts = hosts
	}
	return identity
}

func matchesCluster(patch mesh.Patch, c *clusterv3.Cluster, identity clusterIdentity) bool {
	match := patch.Match.GetCluster()
	switch {
	case match == nil:
		return true
	case match.GetName() != "":
		return match.GetName() == c.GetName()
	}
	return (match.GetSubset() == "" || match.GetSubset() == identity.subset) &&
		(match.GetService() == "" || slices.Contains(identity.hosts, match.GetService())) &&
		(match.GetPortNumber() == 0 || int(match.GetPortNumber()) == identity.port)
}

func (e *edit) cluster(c *clusterv3.Cluster, identity clusterIdentity) (*clusterv3.Cluster, bool) {
	matches := func(patch mesh.Patch, c *clusterv3.Cluster) bool { return matchesCluster(patch, c, identity) }
	return removedOrMerged(e.patches[networking.EnvoyFilter_CLUSTER], c, matches, e.mergedCluster)
}

// mergedCluster merges transport sockets by their configuration. If the cluster chooses among
// several, the first one of the same name is changed. A patch with another transport socket is not
// for this cluster, which cannot have both.
func (e *edit) mergedCluster(c, value *clusterv3.Cluster, patch mesh.Patch) *clusterv3.Cluster {
	socket := value.GetTransportSocket()
	if socket == nil {
		return mergedBy(c, value, patch)
	}
	matches := c.GetTransportSocketMatches()
	same := slices.IndexFunc(matches, func(m *clusterv3.Cluster_TransportSocketMatch) bool {
		return m.GetTransportSocket() != nil && m.GetTransportSocket().GetName() == socket.GetName()
	})
	if len(matches) > 0 && same < 0 {
		return c
	}
	out := mergedBy(c, altered(value, func(v *clusterv3.Cluster) { v.TransportSocket = nil }), patch)
	switch {
	case same >= 0:
		chosen := altered(matches[same], func(m *clusterv3.Cluster_TransportSocketMatch) {
			m.TransportSocket = e.mergedSocket(matches[same].GetTransportSocket(), socket, patch)
		})
		matches = slices.Clone(matches)
		matches[same] = chosen
		out.TransportSocketMatches = matches
	case c.GetTransportSocket().GetName() == socket.GetName():
		out.TransportSocket = e.mergedSocket(c.GetTransportSocket(), socket, patch)
	default:
		out.TransportSocket = socket
	}
	return out
}

// mergedSocket merges the configurations of two transport sockets of one name.
func (e *edit) mergedSocket(have, more *corev3.TransportSocket, patch mesh.Patch) *corev3.TransportSocket {
	if have.GetTypedConfig() == nil || more.GetTypedConfig() == nil {
		return have
	}
	packed, err := mergedPacked(have.GetTypedConfig(), more.GetTypedConfig(), patch.ReplacesLists())
	if err != nil {
		e.fail("the transport socket " + have.GetName() + ": " + err.Error())
		return have
	}
	return &corev3.TransportSocket{Name: have.GetName(), ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: packed}}
}
