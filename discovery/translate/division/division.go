// Package division makes the route configurations that listeners ask for: whole, or divided for
// proxies that are sent each virtual host by itself.
package division

import (
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/pgmesh/pgmesh/discovery/translate/memory"
	"github.com/pgmesh/pgmesh/discovery/translate/message"
	"github.com/pgmesh/pgmesh/discovery/translate/naming"
	"github.com/pgmesh/pgmesh/discovery/translate/route"
	"github.com/pgmesh/pgmesh/discovery/translate/scoped"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
	"github.com/pgmesh/pgmesh/discovery/translate/virtualhost"
)

// Division is a route configuration for proxies that are sent virtual hosts by themselves. A change
// of one host among a thousand is then a message with one. The hosts are not made yet.
type Division struct {
	Configuration *routev3.RouteConfiguration
	Hosts         []virtualhost.Host
	Scopes        []scoped.Route
}

// Make makes the hosts, in both forms.
func (d *Division) Make() Divided {
	out := Divided{Configuration: d.Configuration}
	for _, h := range d.Hosts {
		out.Hosts = append(out.Hosts, h.Make())
	}
	for _, s := range d.Scopes {
		out.Scopes = append(out.Scopes, s.Make())
	}
	return out
}

// Divided is a division whose messages are made.
type Divided struct {
	// Configuration asks for the virtual hosts. It holds its host itself if it is for a single
	// service.
	Configuration *routev3.RouteConfiguration
	// Hosts bear the names by which they are sent: Envoy removes them by those.
	Hosts []*routev3.VirtualHost
	// Scopes say the same once more, for listeners that find their routes by hosts.
	Scopes []*routev3.ScopedRouteConfiguration
}

// Whole returns the route configurations that the listeners of a proxy ask for, each with its
// hosts.
func Whole(v view.View, m *memory.Memory) []*routev3.RouteConfiguration {
	names := route.Names(v)
	out := make([]*routev3.RouteConfiguration, len(names))
	for i, name := range names {
		out[i] = route.Configuration(v, name)
		for _, h := range hosts(v, m, name) {
			out[i].VirtualHosts = append(out[i].VirtualHosts, h.Message(v.CountsAttempts()))
		}
	}
	return out
}

// Of returns the route configurations that the listeners of a proxy ask for, divided. The memory
// has what did not change since the last time.
func Of(v view.View, m *memory.Memory) []Division {
	names := route.Names(v)
	out := make([]Division, len(names))
	for i, name := range names {
		m.Begin(v, name)
		out[i] = division(v, m, name)
	}
	return out
}

func division(v view.View, m *memory.Memory, name string) Division {
	if scoped.Offered(v, name) {
		return byScopes(v, m, name)
	}
	d, hosts := Division{Configuration: route.Configuration(v, name)}, hosts(v, m, name)
	if holdsHosts(name) {
		for _, h := range hosts {
			d.Configuration.VirtualHosts = append(d.Configuration.VirtualHosts, h.Message(v.CountsAttempts()))
		}
		return d
	}
	askForHosts(d.Configuration)
	if len(hosts) == 0 {
		hosts = []virtualhost.Draft{virtualhost.Nobody}
	}
	d.Hosts = make([]virtualhost.Host, len(hosts))
	for i, h := range hosts {
		d.Hosts[i] = h.In(name, v.CountsAttempts())
	}
	return d
}

// holdsHosts reports whether a configuration holds its hosts itself. That must follow from its
// name: a configuration that begins to ask for hosts would be without them until they arrive, and
// Envoy keeps the hosts of one that ceases to ask.
func holdsHosts(configuration string) bool { return naming.ParseRoute(configuration).Host != "" }

func askForHosts(r *routev3.RouteConfiguration) {
	r.Vhds = &routev3.Vhds{ConfigSource: message.OverADS()}
}
