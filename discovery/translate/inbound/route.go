package inbound

import (
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/message"
	"github.com/pgmesh/pgmesh/discovery/translate/naming"
	"github.com/pgmesh/pgmesh/discovery/translate/route"
)

// routes sends every request to the application. They are in the listener itself, since they change
// only with it.
func (in servedPort) routes() *routev3.RouteConfiguration {
	return &routev3.RouteConfiguration{
		Name:             in.cluster,
		ValidateClusters: message.No,
		VirtualHosts: []*routev3.VirtualHost{{
			Name:    "inbound|http|" + naming.Number(in.number),
			Domains: []string{"*"},
			Routes:  []*routev3.Route{in.route()},
		}},
	}
}

func (in servedPort) route() *routev3.Route {
	action := &routev3.RouteAction{
		ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: in.cluster},
		Timeout:          message.NoDuration,
		MaxStreamDuration: &routev3.RouteAction_MaxStreamDuration{
			MaxStreamDuration: message.NoDuration, GrpcTimeoutHeaderMax: message.NoDuration,
		},
	}
	if in.protocol != mesh.ProtocolGRPC && in.protocol != mesh.ProtocolGRPCWeb {
		action.RetryPolicy = route.InboundRetries(in.Config.GetDefaultInboundHttpRetryPolicy())
	}
	return &routev3.Route{
		Name:      route.DefaultName,
		Match:     message.AnyRequest(),
		Decorator: &routev3.Decorator{Operation: in.service + ":" + naming.Number(in.number) + "/*"},
		Action:    &routev3.Route_Route{Route: action},
	}
}
