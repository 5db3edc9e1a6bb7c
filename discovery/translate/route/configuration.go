package route

import (
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/pgmesh/pgmesh/discovery/translate/message"
	"github.com/pgmesh/pgmesh/discovery/translate/naming"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
)

// MaxDirectResponse is the largest body of a direct response, as in Istio. Envoy's default is 4
// KiB.
var MaxDirectResponse = wrapperspb.UInt32(1 << 20)

// Configuration is a route configuration without its virtual hosts.
func Configuration(v view.View, full string) *routev3.RouteConfiguration {
	name := naming.ParseRoute(full)
	return &routev3.RouteConfiguration{
		Name:                           full,
		ValidateClusters:               message.No,
		MaxDirectResponseBodySizeBytes: MaxDirectResponse,
		IgnorePortInHostMatching:       !v.Sidecar() || !name.AnyPort(EgressOf(v, name)),
	}
}
