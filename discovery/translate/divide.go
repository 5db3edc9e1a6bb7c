package translate

import (
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
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
	Hosts         []Host
	Scopes        []Scoped
}

// Host is a virtual host that is not made yet.
type Host struct {
	virtualHost

	countsAttempts bool
}

// Name is that by which it is sent.
func (h Host) Name() string { return h.name }

// Same tells whether two hosts come to the same, for proxies of the same traits in the same surroundings. It may say false of such.
func (h Host) Same(other Host) bool {
	return h.same(other.virtualHost) && h.countsAttempts == other.countsAttempts
}

// Make makes the host.
func (h Host) Make() *routev3.VirtualHost { return h.message(h.countsAttempts) }

// Divisions are the routes of Routes, divided.
func (s View) Divisions() []Division {
	v := s.remembering()
	names := v.routeNames()
	out := make([]Division, len(names))
	for i, name := range names {
		out[i] = v.division(name)
	}
	return out
}

func (v view) division(name string) Division {
	if !v.sidecar() {
		v.memory.bound[name] = v.bound(name)
	}
	if v.offersScopes(name) {
		return v.divisionByHosts(name)
	}
	d, hosts := Division{Configuration: v.configuration(name)}, v.hosts(name)
	v.memory.mixed = v.memory.mixed || v.mixesPorts(parseRouteName(name))
	if holdsHosts(name) {
		for _, h := range hosts {
			d.Configuration.VirtualHosts = append(d.Configuration.VirtualHosts, h.message(v.countsAttempts()))
		}
		return d
	}
	askForHosts(d.Configuration)
	if len(hosts) == 0 {
		hosts = []virtualHost{nobody}
	}
	d.Hosts = make([]Host, len(hosts))
	for i, h := range hosts {
		h.name = HostName(name, h.name)
		d.Hosts[i] = Host{h, v.countsAttempts()}
	}
	return d
}

// mixesPorts tells whether a configuration is not that of one port alone: of a socket, of one service, or of the port of an HTTP proxy, where
// requests name the port.
func (v view) mixesPorts(name routeName) bool {
	return name.full != number(name.port) || name.anyPort(v.egressOf(name))
}

// nobody is the host of a configuration that has none: a listener waits until the first comes.
var nobody = virtualHost{name: "none", domains: []string{"*"}, refuses: true}

// holdsHosts tells whether a configuration has its hosts in itself. That follows from its name alone: Envoy would be without those of one
// that comes to ask for them, until they arrive, and keeps those of one that no longer does.
func holdsHosts(configuration string) bool { return parseRouteName(configuration).host != "" }

func askForHosts(r *routev3.RouteConfiguration) { r.Vhds = &routev3.Vhds{ConfigSource: overADS()} }

// Divide divides a route configuration of the proxy's that was made whole, as patches want it.
func (s View) Divide(whole *routev3.RouteConfiguration) Divided {
	d := Divide(whole)
	if s.offersScopes(whole.GetName()) {
		d.Scopes = divideByHosts(whole)
	}
	return d
}

// Divide divides a route configuration into virtual hosts.
func Divide(whole *routev3.RouteConfiguration) Divided {
	if holdsHosts(whole.GetName()) {
		return Divided{Configuration: whole}
	}
	d := Divided{Configuration: copied(whole)}
	d.Configuration.VirtualHosts = nil
	askForHosts(d.Configuration)
	hosts := whole.GetVirtualHosts()
	if len(hosts) == 0 {
		hosts = []*routev3.VirtualHost{nobody.message(false)}
	}
	for _, host := range hosts {
		host = copied(host)
		host.Name = HostName(whole.GetName(), host.GetName())
		d.Hosts = append(d.Hosts, host)
	}
	return d
}

// HostName is the name by which a virtual host of a route configuration is sent. What comes before the last slash is the configuration's
// name to Envoy, so there must be none after it.
func HostName(configuration, host string) string {
	return configuration + "/" + strings.ReplaceAll(host, "/", "%2F")
}

// copied is a copy that shares with the original all that its fields point to.
func copied[M proto.Message](m M) M {
	out := m.ProtoReflect().New()
	m.ProtoReflect().Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		out.Set(f, v)
		return true
	})
	out.SetUnknown(m.ProtoReflect().GetUnknown())
	return out.Interface().(M) //nolint:forcetypeassert // it is of m's type
}
