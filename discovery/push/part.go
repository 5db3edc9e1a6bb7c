package push

import (
	"crypto/sha256"
	"encoding/hex"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate"
	"github.com/pgmesh/pgmesh/internal/ads"
	"github.com/pgmesh/pgmesh/kinds"
)

const typePrefix = "type.googleapis.com/"

// The types that Envoy is served.
var (
	ClusterType  = typeOf(&clusterv3.Cluster{})
	EndpointType = typeOf(&endpointv3.ClusterLoadAssignment{})
	ListenerType = typeOf(&listenerv3.Listener{})
	RouteType    = typeOf(&routev3.RouteConfiguration{})
)

func typeOf(m proto.Message) string {
	return typePrefix + string(m.ProtoReflect().Descriptor().FullName())
}

// part is one type of what a proxy gets.
type part struct {
	typeURL string
	// blind lists the kinds that the translation of this part does not look at.
	blind     []string
	translate func(*mesh.Mesh, *mesh.Proxy) []*ads.Resource
}

var parts = []part{
	{ClusterType, []string{"VirtualService"}, func(m *mesh.Mesh, p *mesh.Proxy) []*ads.Resource {
		return encode(translate.Clusters(m, p), (*clusterv3.Cluster).GetName, endpointsOf)
	}},
	{EndpointType, []string{"VirtualService"}, func(m *mesh.Mesh, p *mesh.Proxy) []*ads.Resource {
		return encode(translate.Endpoints(m, p), (*endpointv3.ClusterLoadAssignment).GetClusterName, nil)
	}},
	{ListenerType, nil, func(m *mesh.Mesh, p *mesh.Proxy) []*ads.Resource {
		return encode(translate.Listeners(m, p), (*listenerv3.Listener).GetName, nil)
	}},
	{RouteType, nil, func(m *mesh.Mesh, p *mesh.Proxy) []*ads.Resource {
		return encode(translate.Routes(m, p), (*routev3.RouteConfiguration).GetName, nil)
	}},
}

// concerns tells whether a change of resources of the given kinds can change this part.
func (p *part) concerns(changed map[*kinds.Kind]bool) bool {
	for k := range changed {
		if !p.ignores(k) {
			return true
		}
	}
	return false
}

func (p *part) ignores(k *kinds.Kind) bool {
	for _, name := range p.blind {
		if k.Name == name {
			return true
		}
	}
	return false
}

// endpointsOf is what Envoy asks for once it has a cluster, and cannot use the cluster without.
func endpointsOf(c *clusterv3.Cluster) []ads.Ref {
	if c.GetType() != clusterv3.Cluster_EDS {
		return nil
	}
	name := c.GetEdsClusterConfig().GetServiceName()
	if name == "" {
		name = c.GetName()
	}
	return []ads.Ref{{TypeURL: EndpointType, Name: name}}
}

// encode turns messages into resources as they are sent. The version is the hash of the bytes.
func encode[M proto.Message](messages []M, name func(M) string, refs func(M) []ads.Ref) []*ads.Resource {
	resources := make([]*ads.Resource, len(messages))
	for i, m := range messages {
		value, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
		if err != nil {
			panic("encode a translated message: " + err.Error()) // only invalid UTF-8 or an unset required field can do this: a bug
		}
		sum := sha256.Sum256(value)
		resources[i] = &ads.Resource{
			Name: name(m), Version: hex.EncodeToString(sum[:12]), Body: &anypb.Any{TypeUrl: typeOf(m), Value: value},
		}
		if refs != nil {
			resources[i].Refs = refs(m)
		}
	}
	return resources
}
