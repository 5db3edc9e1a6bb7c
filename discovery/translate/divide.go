package translate

import (
	"maps"
	"slices"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/pgmesh/pgmesh/discovery/translate/memory"
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

// divisions are the route configurations that the listeners of a proxy ask for, divided.
func divisions(v view.View, m *memory.Memory) []Division {
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
		return divisionByHosts(v, m, name)
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

// holdsHosts tells whether a configuration has its hosts in itself. That follows from its name alone: Envoy would be without those of one
// that comes to ask for them, until they arrive, and keeps those of one that no longer does.
func holdsHosts(configuration string) bool { return naming.ParseRoute(configuration).Host != "" }

func askForHosts(r *routev3.RouteConfiguration) {
	r.Vhds = &routev3.Vhds{ConfigSource: message.OverADS()}
}

// divideFor divides a route configuration of a proxy's that was made whole, as patches want it.
func divideFor(v view.View, whole *routev3.RouteConfiguration) Divided {
	d := Divide(whole)
	if scoped.Offered(v, whole.GetName()) {
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
func divisionByHosts(v view.View, m *memory.Memory, full string) Division {
	servers := v.Mesh.Frontend(v.Proxy).Routes[full]
	all, counts := m.OnServers(v, servers), v.CountsAttempts()
	d := Division{Configuration: route.Configuration(v, full)}
	askForHosts(d.Configuration)
	together := all.List(servers[0])
	others := scoped.Route{Base: route.Configuration(v, full), Host: scoped.RestOfHosts, CountsAttempts: counts}
	for _, name := range slices.Sorted(maps.Keys(all.ByName)) {
		if scoped.IsExact(name) {
			d.Scopes = append(d.Scopes, scoped.Route{Base: others.Base, Host: name, Hosts: []virtualhost.Draft{*all.ByName[name]}, CountsAttempts: counts})
			delete(all.ByName, name)
		}
	}
	if len(all.ByName) > 0 { // where there are none, what is not found is answered by 404, too
		others.Hosts = all.List(servers[0])
	}
	if scoped.On(v, full) {
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
