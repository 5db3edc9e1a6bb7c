package translate

import (
	"maps"
	"slices"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/pgmesh/pgmesh/discovery/translate/message"
	"github.com/pgmesh/pgmesh/discovery/translate/naming"
	"github.com/pgmesh/pgmesh/discovery/translate/route"
	"github.com/pgmesh/pgmesh/discovery/translate/scoped"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
	"github.com/pgmesh/pgmesh/discovery/translate/virtualhost"
)

// Divided is a route configuration for clients that are sent virtual hosts by themselves: a change of one among a thousand is then a
// message with one.
type Divided struct {
	// Configuration asks for the virtual hosts. It has them in itself where it is for a single service, and so has one.
	Configuration *routev3.RouteConfiguration
	// Hosts bear the names by which they are sent, which Envoy wants to be their own: it removes them by those.
	Hosts []*routev3.VirtualHost
	// Scopes are the same once more, for listeners that find their routes by hosts.
	Scopes []*routev3.ScopedRouteConfiguration
}

// Make makes the hosts.
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

// Division is a divided route configuration whose hosts are not made yet.
type Division struct {
	Configuration *routev3.RouteConfiguration
	Hosts         []virtualhost.Host
	Scopes        []scoped.Route
}

// Divisions are the routes of Routes, divided.
func (s View) Divisions() []Division {
	v := s.remembering()
	names := route.Names(v.View)
	out := make([]Division, len(names))
	for i, name := range names {
		out[i] = v.division(name)
	}
	return out
}

func (v recalling) division(name string) Division {
	if !v.Sidecar() {
		v.memory.bound[name] = bound(v.View, name)
	}
	if scoped.Offered(v.View, name) {
		return v.divisionByHosts(name)
	}
	d, hosts := Division{Configuration: route.Configuration(v.View, name)}, v.hosts(name)
	v.memory.mixed = v.memory.mixed || mixesPorts(v.View, naming.ParseRoute(name))
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

// mixesPorts tells whether a configuration is not that of one port alone: of a socket, of one service, or of the port of an HTTP proxy, where
// requests name the port.
func mixesPorts(v view.View, name naming.Route) bool {
	return name.Full != naming.Number(name.Port) || name.AnyPort(route.EgressOf(v, name))
}

// holdsHosts tells whether a configuration has its hosts in itself. That follows from its name alone: Envoy would be without those of one
// that comes to ask for them, until they arrive, and keeps those of one that no longer does.
func holdsHosts(configuration string) bool { return naming.ParseRoute(configuration).Host != "" }

func askForHosts(r *routev3.RouteConfiguration) {
	r.Vhds = &routev3.Vhds{ConfigSource: message.OverADS()}
}

// Divide divides a route configuration of the proxy's that was made whole, as patches want it.
func (s View) Divide(whole *routev3.RouteConfiguration) Divided {
	d := Divide(whole)
	if scoped.Offered(s.View, whole.GetName()) {
		d.Scopes = scoped.Divide(whole)
	}
	return d
}

// Divide divides a route configuration into virtual hosts.
func Divide(whole *routev3.RouteConfiguration) Divided {
	if holdsHosts(whole.GetName()) {
		return Divided{Configuration: whole}
	}
	d := Divided{Configuration: message.Copied(whole)}
	d.Configuration.VirtualHosts = nil
	askForHosts(d.Configuration)
	hosts := whole.GetVirtualHosts()
	if len(hosts) == 0 {
		hosts = []*routev3.VirtualHost{virtualhost.Nobody.Message(false)}
	}
	for _, host := range hosts {
		host = message.Copied(host)
		host.Name = naming.Host(whole.GetName(), host.GetName())
		d.Hosts = append(d.Hosts, host)
	}
	return d
}

// divisionByHosts is a route configuration divided into virtual hosts and, once more, by hosts, with what is for all other hosts, which is always
// there. Where listeners find their routes by hosts, virtual hosts are divided likewise, so that a change of one is one of the other.
func (v recalling) divisionByHosts(full string) Division {
	servers := v.Mesh.Frontend(v.Proxy).Routes[full]
	all, counts := v.gatewayHosts(servers), v.CountsAttempts()
	d := Division{Configuration: route.Configuration(v.View, full)}
	askForHosts(d.Configuration)
	together := all.list(servers[0])
	others := scoped.Route{Base: route.Configuration(v.View, full), Host: scoped.RestOfHosts, CountsAttempts: counts}
	for _, name := range slices.Sorted(maps.Keys(all.byName)) {
		if scoped.IsExact(name) {
			d.Scopes = append(d.Scopes, scoped.Route{Base: others.Base, Host: name, Hosts: []virtualhost.Draft{*all.byName[name]}, CountsAttempts: counts})
			delete(all.byName, name)
		}
	}
	if len(all.byName) > 0 { // where there are none, what is not found is answered by 404, too
		others.Hosts = all.list(servers[0])
	}
	if scoped.On(v.View, full) {
		for _, s := range d.Scopes {
			d.Hosts = append(d.Hosts, s.AsHost())
		}
		if together = others.Hosts; len(together) == 0 {
			together = []virtualhost.Draft{virtualhost.Nobody}
		}
	}
	for _, h := range together {
		d.Hosts = append(d.Hosts, h.In(full, counts))
	}
	d.Scopes = append(d.Scopes, others)
	return d
}
