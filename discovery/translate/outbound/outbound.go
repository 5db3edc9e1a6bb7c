// Package outbound makes the listeners that a sidecar's applications connect through.
package outbound

import (
	"cmp"
	"slices"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"

	"github.com/pgmesh/pgmesh/discovery/translate/binding"
	"github.com/pgmesh/pgmesh/discovery/translate/filter"
	"github.com/pgmesh/pgmesh/discovery/translate/need"
	"github.com/pgmesh/pgmesh/discovery/translate/upstream"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
)

// Listeners has one for each address and port that applications may connect to, one where they find
// the sidecar as an HTTP proxy, and virtualOutbound for all else that is redirected. Without
// redirection the listeners are on loopback, and applications connect to them.
func Listeners(v view.View) []*listenerv3.Listener {
	context := filter.Unguarded(v)
	out := ofServices(context)
	if v.HTTPProxyPort() != 0 {
		out = append(out, httpProxy(context))
	}
	if v.Intercepted() {
		out = append(out, virtual(context))
	}
	return out
}

// ofServices are the listeners that the services in the proxy's scope ask for, in the order of
// their names.
func ofServices(c filter.Context) []*listenerv3.Listener {
	p := plan{Context: c, byAddress: map[binding.Place]*planned{}}
	for _, egress := range c.Scope.Egress {
		if egress.Port == nil {
			p.closeAll()
		}
		p.dynamic, p.needed = upstream.DynamicIn(egress), need.InEgress(c.View, egress)
		for o := range binding.Ports(c.View, egress) {
			p.add(o)
		}
	}
	out := besides(c, ownPlaces(c.View), p.order)
	slices.SortFunc(out, func(a, b *listenerv3.Listener) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return out
}
