package inspect

import (
	"fmt"
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/pgmesh/pgmesh/discovery/push"
	"github.com/pgmesh/pgmesh/internal/ads/served"
)

// withHosts adds to a route configuration the virtual hosts that a client is sent apart: Envoy's
// own dump has them there.
func withHosts(body *anypb.Any, from *served.Snapshot) error {
	whole := &routev3.RouteConfiguration{}
	if err := body.UnmarshalTo(whole); err != nil {
		return err
	}
	if whole.GetVhds() == nil {
		return nil
	}
	for r := range from.Sets[push.VirtualHostType].All() {
		if name, its := strings.CutPrefix(r.Name, whole.GetName()+"/"); !its || strings.Contains(name, "/") {
			continue
		}
		host := &routev3.VirtualHost{}
		packed, err := shown(r)
		if err == nil {
			err = packed.UnmarshalTo(host)
		}
		if err != nil {
			return fmt.Errorf("the virtual host %s: %w", r.Name, err)
		}
		whole.VirtualHosts = append(whole.VirtualHosts, host)
	}
	return body.MarshalFrom(whole)
}
