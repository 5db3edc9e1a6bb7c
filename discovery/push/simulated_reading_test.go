package push_test

import (
	"cmp"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/pgmesh/pgmesh/discovery/push"
	"github.com/pgmesh/pgmesh/internal/ads/served"
)

// held is a resource as a simulated Envoy has it.
type held struct {
	version string // "" in a state of the world
	body    []byte
	scopes  []string     // the routes among which a listener finds those for a request
	asks    []served.Ref // what Envoy asks for once it has the resource
	leads   []string     // the clusters that it sends requests to
}

// read returns the name of a resource, with what Envoy asks for once it has it, and where it leads.
func read(body *anypb.Any) (name string, h held) {
	if body == nil { // the answer that a resource does not exist
		return "", h
	}
	m, err := body.UnmarshalNew()
	if err != nil {
		panic("a server sends what cannot be read: " + err.Error())
	}
	switch m := m.(type) {
	case interface{ GetClusterName() string }:
		name = m.GetClusterName()
	case interface{ GetName() string }:
		name = m.GetName()
	default:
		name = "names"
	}
	h.body = body.GetValue()
	visit(m.ProtoReflect(), h.see)
	return name, h
}

// see records what a part of the resource asks for, and where it leads.
func (h *held) see(m proto.Message) {
	ask := func(typeURL, name string) { h.asks = append(h.asks, served.Ref{TypeURL: typeURL, Name: name}) }
	switch m := m.(type) {
	case *clusterv3.Cluster:
		if m.GetType() == clusterv3.Cluster_EDS {
			ask(push.EndpointType, cmp.Or(m.GetEdsClusterConfig().GetServiceName(), m.GetName()))
		}
	case *hcmv3.HttpConnectionManager:
		if m.GetRds() != nil {
			ask(push.RouteType, m.GetRds().GetRouteConfigName())
		}
	case *corev3.HeaderValue:
		if routes, ok := strings.CutSuffix(m.GetValue(), "/%REQ(:AUTHORITY)%"); ok {
			h.scopes = append(h.scopes, routes)
		}
	case *hcmv3.HttpFilter:
		if m.GetConfigDiscovery() != nil {
			ask(push.ExtensionType, m.GetName())
		}
	case *tlsv3.SdsSecretConfig:
		if m.GetSdsConfig().GetAds() != nil {
			ask(push.SecretType, m.GetName())
		}
	case *routev3.RouteConfiguration:
		if m.GetVhds() != nil {
			ask(push.VirtualHostType, "*")
		}
	case *routev3.RouteAction:
		if m.GetCluster() != "" {
			h.leads = append(h.leads, m.GetCluster())
		}
	case *routev3.WeightedCluster_ClusterWeight:
		h.leads = append(h.leads, m.GetName())
	case *tcpv3.TcpProxy:
		if m.GetCluster() != "" {
			h.leads = append(h.leads, m.GetCluster())
		}
	case *tcpv3.TcpProxy_WeightedCluster_ClusterWeight:
		h.leads = append(h.leads, m.GetName())
	}
}

// visit goes through a message, and through messages packed in it.
func visit(m protoreflect.Message, see func(proto.Message)) {
	if packed, ok := m.Interface().(*anypb.Any); ok {
		if inner, err := packed.UnmarshalNew(); err == nil {
			visit(inner.ProtoReflect(), see)
		}
		return
	}
	see(m.Interface())
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.IsMap():
			if f.MapValue().Message() != nil {
				v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool { visit(v.Message(), see); return true })
			}
		case f.Message() == nil:
		case f.IsList():
			for i := range v.List().Len() {
				visit(v.List().Get(i).Message(), see)
			}
		default:
			visit(v.Message(), see)
		}
		return true
	})
}
