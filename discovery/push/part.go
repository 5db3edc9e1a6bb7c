package push

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/pgmesh/pgmesh/discovery/envoyfilter"
	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate"
	"github.com/pgmesh/pgmesh/internal/ads"
	ndsv1 "github.com/pgmesh/pgmesh/proto/istio/networking/nds/v1"
)

const typePrefix = "type.googleapis.com/"

// The types that Envoy is served.
var (
	ClusterType  = typeOf(&clusterv3.Cluster{})
	EndpointType = typeOf(&endpointv3.ClusterLoadAssignment{})
	ListenerType = typeOf(&listenerv3.Listener{})
	RouteType    = typeOf(&routev3.RouteConfiguration{})
	// ExtensionType is what filters are configured with that ask for it by a name.
	ExtensionType = typeOf(&corev3.TypedExtensionConfig{})
	SecretType    = typeOf(&tlsv3.Secret{})
	// NameTableType is for the resolver of the agent beside a sidecar.
	NameTableType = typeOf(&ndsv1.NameTable{})
)

func typeOf(m proto.Message) string {
	return typePrefix + string(m.ProtoReflect().Descriptor().FullName())
}

// part is one type of what a proxy gets.
type part struct {
	typeURL string
	// blind tells of a change that the translation of this part does not look at it.
	blind     func(*Change) bool
	translate func(*mesh.Mesh, *mesh.Proxy, *envoyfilter.Patcher, *ads.Set) ([]*ads.Resource, []error)
}

var parts = []part{
	{ClusterType, blindToClusters, func(m *mesh.Mesh, p *mesh.Proxy, patches *envoyfilter.Patcher, old *ads.Set) ([]*ads.Resource, []error) {
		return encode(old, patches.Clusters(translate.Clusters(m, p)), (*clusterv3.Cluster).GetName, referToEndpoints)
	}},
	{EndpointType, blindToEndpoints, func(m *mesh.Mesh, p *mesh.Proxy, _ *envoyfilter.Patcher, old *ads.Set) ([]*ads.Resource, []error) {
		return encode(old, translate.Endpoints(m, p), (*endpointv3.ClusterLoadAssignment).GetClusterName, noteEmpty)
	}},
	{ExtensionType, blindToExtensions, func(_ *mesh.Mesh, _ *mesh.Proxy, patches *envoyfilter.Patcher, old *ads.Set) ([]*ads.Resource, []error) {
		return encode(old, patches.Extensions(), (*corev3.TypedExtensionConfig).GetName, nil)
	}},
	{ListenerType, blindToListeners, func(m *mesh.Mesh, p *mesh.Proxy, patches *envoyfilter.Patcher, old *ads.Set) ([]*ads.Resource, []error) {
		return encode(old, patches.Listeners(translate.Listeners(m, p)), (*listenerv3.Listener).GetName, nil)
	}},
	{RouteType, blindToRoutes, func(m *mesh.Mesh, p *mesh.Proxy, patches *envoyfilter.Patcher, old *ads.Set) ([]*ads.Resource, []error) {
		return encode(old, patches.Routes(translate.Routes(m, p)), (*routev3.RouteConfiguration).GetName, nil)
	}},
	{SecretType, (*Change).ofNoGateway, func(m *mesh.Mesh, p *mesh.Proxy, _ *envoyfilter.Patcher, old *ads.Set) ([]*ads.Resource, []error) {
		return encode(old, translate.Secrets(m, p), (*tlsv3.Secret).GetName, nil)
	}},
	{NameTableType, blindToNames, func(m *mesh.Mesh, p *mesh.Proxy, _ *envoyfilter.Patcher, _ *ads.Set) ([]*ads.Resource, []error) {
		if table := translate.NameTable(m, p); table != nil {
			return []*ads.Resource{encodeOne(table, "names")}, nil
		}
		return nil, nil
	}},
}

// concerns tells whether one of the changes can change this part. Nothing but the part of secrets looks at them.
func (p *part) concerns(changes []Change) bool {
	return slices.ContainsFunc(changes, func(c Change) bool {
		if c.ofSecrets() {
			return p.ofSecrets()
		}
		return !p.blind(&c)
	})
}

func (p *part) ofSecrets() bool { return p.typeURL == SecretType }

// referToEndpoints names what Envoy asks for once it has a cluster, and cannot use the cluster without.
func referToEndpoints(c *clusterv3.Cluster, r *ads.Resource) {
	if c.GetType() != clusterv3.Cluster_EDS {
		return
	}
	name := c.GetEdsClusterConfig().GetServiceName()
	if name == "" {
		name = c.GetName()
	}
	r.Refs = []ads.Ref{{TypeURL: EndpointType, Name: name}}
}

// noteEmpty marks a cluster without endpoints: routes that lead there have to change first.
func noteEmpty(a *endpointv3.ClusterLoadAssignment, r *ads.Resource) {
	r.Empty = len(a.GetEndpoints()) == 0
}

// message is what all messages of Envoy's can do.
type message interface {
	proto.Message
	Validate() error
}

// encode turns messages into resources as they are sent. The version is the hash of the bytes. What Envoy would refuse is left out,
// and the last good state of it, if there was one, stays: it would take everything else in its response down with it.
func encode[M message](old *ads.Set, messages []M, name func(M) string, note func(M, *ads.Resource)) (resources []*ads.Resource, invalid []error) {
	resources = make([]*ads.Resource, 0, len(messages))
	for _, m := range messages {
		r := encodeOne(m, name(m))
		before := old.Get(r.Name)
		if before == nil || before.Version != r.Version {
			if err := m.Validate(); err != nil {
				invalid = append(invalid, fmt.Errorf("%s: %w", r.Name, err))
				r = before
			} else if note != nil {
				note(m, r)
			}
		}
		if r != nil {
			resources = append(resources, r)
		}
	}
	return resources, invalid
}

func encodeOne(m proto.Message, name string) *ads.Resource {
	value, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		panic("encode a translated message: " + err.Error()) // only invalid UTF-8 can do this, which no decoder lets in
	}
	sum := sha256.Sum256(value)
	return &ads.Resource{
		Name: name, Version: hex.EncodeToString(sum[:12]), Body: &anypb.Any{TypeUrl: typeOf(m), Value: value},
	}
}
