package inspect

import (
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/proto"

	"github.com/pgmesh/pgmesh/discovery/push"
	"github.com/pgmesh/pgmesh/internal/ads/served"
)

// shownCluster is a cluster with its endpoints, for people.
type shownCluster struct {
	Name string `json:"name"`
	// Type is how Envoy gets the endpoints, in Envoy's words: EDS, STRICT_DNS, ORIGINAL_DST.
	Type      string          `json:"type"`
	Version   string          `json:"version"`
	Endpoints []shownEndpoint `json:"endpoints"`
}

// shownEndpoint is an endpoint as discovery knows it. What Envoy finds out itself, by checks and
// from failures, is on Envoy's /clusters.
type shownEndpoint struct {
	Address  string `json:"address"`
	Health   string `json:"health"`
	Locality string `json:"locality,omitempty"`
	Priority uint32 `json:"priority"`
	Weight   uint32 `json:"weight"`
}

func (i *Inspector) clustersPage(r *http.Request) (any, error) {
	name, err := named(r)
	if err != nil {
		return nil, err
	}
	of, err := i.given(r)
	if err != nil {
		return nil, err
	}
	return clusters(of.snapshot, selection{name: name})
}

// clusters lists the clusters of a snapshot, joined with endpoints that are sent apart.
func clusters(from *served.Snapshot, wanted selection) ([]shownCluster, error) {
	all := []shownCluster{}
	for r := range from.Sets[push.ClusterType].All() {
		if !wanted.named(r.Name) {
			continue
		}
		cluster, assignment := &clusterv3.Cluster{}, &endpointv3.ClusterLoadAssignment{}
		if err := read(r, cluster); err != nil {
			return nil, err
		}
		if apart := from.Sets[push.EndpointType].Get(endpointsOf(cluster)); apart == nil {
			assignment = cluster.GetLoadAssignment()
		} else if err := read(apart, assignment); err != nil {
			return nil, err
		}
		all = append(all, shownCluster{Name: r.Name, Type: typeOf(cluster), Version: r.Version, Endpoints: endpoints(assignment)})
	}
	return all, nil
}

func read(r *served.Resource, into proto.Message) error {
	if err := r.Body.UnmarshalTo(into); err != nil {
		return fmt.Errorf("read %s: %w", r.Name, err)
	}
	return nil
}

// endpointsOf names the endpoints of a cluster that are sent apart.
func endpointsOf(c *clusterv3.Cluster) string {
	if name := c.GetEdsClusterConfig().GetServiceName(); name != "" {
		return name
	}
	return c.GetName()
}

func typeOf(c *clusterv3.Cluster) string {
	if custom := c.GetClusterType(); custom != nil {
		return custom.GetName()
	}
	return c.GetType().String()
}

func endpoints(a *endpointv3.ClusterLoadAssignment) []shownEndpoint {
	all := []shownEndpoint{}
	for _, place := range a.GetEndpoints() {
		for _, e := range place.GetLbEndpoints() {
			all = append(all, shownEndpoint{
				Address: addressOf(e.GetEndpoint().GetAddress()), Health: healthOf(e.GetHealthStatus()),
				Locality: localityOf(place.GetLocality()), Priority: place.GetPriority(), Weight: max(1, e.GetLoadBalancingWeight().GetValue()),
			})
		}
	}
	return all
}

func addressOf(a *corev3.Address) string {
	switch {
	case a.GetSocketAddress() != nil:
		return net.JoinHostPort(a.GetSocketAddress().GetAddress(), strconv.Itoa(int(a.GetSocketAddress().GetPortValue())))
	case a.GetPipe() != nil:
		return "unix:" + a.GetPipe().GetPath()
	}
	return "internal:" + a.GetEnvoyInternalAddress().GetServerListenerName()
}

// healthOf returns healthy if nothing is said, as Envoy does.
func healthOf(h corev3.HealthStatus) string {
	if h == corev3.HealthStatus_UNKNOWN {
		h = corev3.HealthStatus_HEALTHY
	}
	return strings.ToLower(h.String())
}

func localityOf(l *corev3.Locality) string {
	return strings.TrimRight(strings.Join([]string{l.GetRegion(), l.GetZone(), l.GetSubZone()}, "/"), "/")
}
