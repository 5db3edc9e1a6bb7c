package translate

import (
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/pgmesh/pgmesh/discovery/mesh"
)

// routes sends every request to the application. The listener carries them itself: they change only with it.
func (in inboundPort) routes() *routev3.RouteConfiguration {
	return &routev3.RouteConfiguration{
		Name:             in.cluster,
		ValidateClusters: no,
		VirtualHosts: []*routev3.VirtualHost{{
			Name:    "inbound|http|" + number(in.number),
			Domains: []string{"*"},
			Routes:  []*routev3.Route{in.route()},
		}},
	}
}

func (in inboundPort) route() *routev3.Route {
	action := &routev3.RouteAction{
		ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: in.cluster},
		Timeout:          noDuration,
		MaxStreamDuration: &routev3.RouteAction_MaxStreamDuration{
			MaxStreamDuration: noDuration, GrpcTimeoutHeaderMax: noDuration,
		},
	}
	if in.protocol != mesh.ProtocolGRPC && in.protocol != mesh.ProtocolGRPCWeb {
		action.RetryPolicy = inboundRetries(in.config.GetDefaultInboundHttpRetryPolicy())
	}
	return &routev3.Route{
		Name:      defaultRoute,
		Match:     anyRequest(),
		Decorator: &routev3.Decorator{Operation: in.service + ":" + number(in.number) + "/*"},
		Action:    &routev3.Route_Route{Route: action},
	}
}
