package gatewayapi

import (
	"fmt"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/hostname"
	"github.com/pgmesh/pgmesh/kinds"
)

// attachment attaches a route to its parents.
type attachment struct {
	*Route

	listeners func(kinds.Key) []*Listener
	problems  []Problem
	pieces    []*Piece
	status    Status
	taken     []At

	gateway, mesh           *conversion
	gatewayRules, meshRules *rules // nil before a parent needs them
}

// rules are those of a route, converted.
type rules struct {
	requests    []*networking.HTTPRoute
	extras      extras // of the requests
	connections [][]*networking.RouteDestination
}

// hosts are those that rules send to, mirrors too; none for no rules.
func (r *rules) hosts() (out []string) {
	if r == nil {
		return nil
	}
	add := func(to *networking.Destination) {
		if to.GetHost() != "" {
			out = withOne(out, to.GetHost())
		}
	}
	for _, in := range r.requests {
		for _, to := range in.GetRoute() {
			add(to.GetDestination())
		}
		for _, to := range in.GetMirrors() {
			add(to.GetDestination())
		}
	}
	for _, some := range r.connections {
		for _, to := range some {
			add(to.GetDestination())
		}
	}
	return out
}

// rules converts the rules, once.
func (c *conversion) rules() *rules {
	if c.converted == nil {
		c.converted = c.convert()
	}
	return c.converted
}

func (c *conversion) convert() *rules {
	if kind := c.route.Resource.Kind; kind == KindHTTPRoute || kind == KindGRPCRoute {
		requests := c.requests()
		return &rules{requests: requests, extras: c.extras}
	}
	return &rules{connections: c.connections()}
}

func (a *attachment) report(index int, reason string) {
	a.problems = append(a.problems, Problem{a.Resource.Key(), fmt.Sprintf("spec.parentRefs[%d]", index), reason})
}

// attach attaches the route to one of its parents. Of a kind that this package does not know it may
// be somebody else's.
func (a *attachment) attach(index int, p parentSpec) {
	if key, ok := p.listens(a.Resource.Namespace); ok {
		a.attachToListeners(index, p, key)
		return
	}
	switch to := p.resolved(group, KindGateway.Name, a.Resource.Namespace); {
	case a.Resource.Kind == KindUDPRoute && (to.is("", "Service") || to.is(groupIstio, KindServiceEntry.Name)):
		refusal := fault{reasonUnknown, "sidecars leave UDP alone: the route has no effect there. Name a Gateway"}
		a.report(index, refusal.message)
		a.state(p, refusal, a.mesh)
	case to.is("", "Service"):
		host := to.serviceHost()
		a.attachToHosts([]string{host}, p.Port)
		a.stateAtHost(p, host)
	case to.is(groupIstio, KindServiceEntry.Name):
		hosts := a.mesh.world.Hosts(to.entryKey())
		refusal := fault{}
		if len(hosts) == 0 {
			refusal = fault{reasonNoParent, fmt.Sprintf("there is no %s: the route has no effect there", to.entryKey())}
			a.report(index, refusal.message)
		}
		a.attachToHosts(hosts, p.Port)
		a.state(p, refusal, a.mesh)
	}
}

// stateAtHost notes how the route stands at a service.
func (a *attachment) stateAtHost(p parentSpec, host string) {
	refusal := fault{}
	if !a.mesh.world.Known(host) {
		refusal = fault{reasonNoParent, fmt.Sprintf("there is no service %s: the route has no effect there", host)}
	}
	a.state(p, refusal, a.mesh)
}

// The reasons why a parent does not take a route, the one that counts last.
const (
	reasonNoParent   = "NoMatchingParent"
	reasonNotTaken   = "NotAllowedByListeners"
	reasonNoHostname = "NoMatchingListenerHostname"
)

var refusals = []string{"", reasonNoParent, reasonNotTaken, reasonNoHostname}

// attachToListeners attaches the route to those of a Gateway's listeners that take it. A Gateway
// without listeners is not there, or of somebody else. A listener that is not served takes routes,
// too, and sends them nothing.
func (a *attachment) attachToListeners(index int, p parentSpec, parent kinds.Key) {
	siblings := a.listeners(parent)
	if len(siblings) == 0 {
		return
	}
	refusal := fault{reasonNoParent, "the parent has no listener of this name and port"}
	if !slices.ContainsFunc(siblings, func(l *Listener) bool { return l.Of.Key() == parent }) {
		refusal.message = fmt.Sprintf("%s has no listeners, or its Gateway does not take them", parent)
	}
	var on []*Listener
	for _, l := range siblings {
		if l.Of.Key() != parent || !p.names(l) {
			continue
		}
		hosts, why := a.hostsOn(l, siblings)
		if len(hosts) > 0 {
			on = append(on, l)
			a.attachToListener(l, hosts)
		} else if len(on) == 0 && slices.Index(refusals, why.reason) > slices.Index(refusals, refusal.reason) {
			refusal = why
		}
	}
	a.tell(index, on, refusal)
	if !siblings[0].stated {
		return
	}
	if len(on) > 0 {
		refusal = fault{}
	}
	if a.state(p, refusal, a.gateway) {
		a.take(on)
	}
}

// tell reports a problem if the route has no effect at a parent.
func (a *attachment) tell(index int, on []*Listener, refusal fault) {
	switch {
	case len(on) == 0:
		a.report(index, refusal.message+": the route has no effect there")
	case !slices.ContainsFunc(on, (*Listener).Served):
		a.report(index, fmt.Sprintf("the listener %q is not served: the route has no effect there", on[0].section))
	}
}

// take notes that listeners of the parent that was stated last have taken the route.
func (a *attachment) take(on []*Listener) {
	parent := &a.status.Parents[len(a.status.Parents)-1]
	for _, l := range on {
		parent.Listeners = append(parent.Listeners, l.section)
		if at := (At{l.Of.Key(), l.section}); !slices.Contains(a.taken, at) {
			a.taken = append(a.taken, at)
		}
	}
}

// names reports whether a parent reference means a listener of the parent.
func (p parentSpec) names(l *Listener) bool {
	return (p.Port == 0 || p.Port == l.port) && (p.SectionName == "" || p.SectionName == l.section)
}

// hostsOn lists the hosts that the route has on a listener. If there are none it says why.
func (a *attachment) hostsOn(l *Listener, siblings []*Listener) (out []string, refusal fault) {
	switch {
	case !slices.Contains(l.kinds, a.Resource.Kind.Name):
		return nil, fault{reasonNotTaken, fmt.Sprintf("the listener %q takes no %s", l.section, a.Resource.Kind.Name)}
	case !l.from.include(a.Resource):
		return nil, fault{reasonNotTaken, fmt.Sprintf("the listener %q takes no routes of the namespace %s", l.section, a.Resource.Namespace)}
	}
	for _, host := range a.hosts() {
		if l.isolates(host, siblings) {
			out = append(out, host)
		}
	}
	if len(out) == 0 {
		return nil, fault{reasonNoHostname, fmt.Sprintf("no hostname of the route is one of the listener %q, which is for %q", l.section, l.hostname)}
	}
	return out, fault{}
}

// hosts are those of the route; any, if it names none.
func (r *Route) hosts() []string {
	if len(r.spec.Hostnames) == 0 {
		return []string{"*"}
	}
	out := make([]string, len(r.spec.Hostnames))
	for i, host := range r.spec.Hostnames {
		out[i] = strings.ToLower(host)
	}
	return out
}

// isolates reports whether the listener has requests for a host that a route names. It has none that
// another listener of the Gateway, on the same port, is more narrowly for.
func (l *Listener) isolates(host string, siblings []*Listener) bool {
	own := l.host()
	if hostname.Common(host, own) == "" {
		return false
	}
	if !hostname.IsWildcard(own) {
		return true
	}
	return !slices.ContainsFunc(siblings, func(other *Listener) bool {
		return other != l && other.Served() && other.port == l.port && other.protocol == l.protocol && other.hostname != l.hostname && other.hostname != "" &&
			len(other.hostname) >= len(l.hostname) && hostname.Within(host, other.hostname)
	})
}

// attachToListener attaches the route to a listener for some hosts, if that is served.
func (a *attachment) attachToListener(l *Listener, hosts []string) {
	if !l.Served() {
		return
	}
	a.gatewayRules = a.gateway.rules()
	for _, host := range slices.SortedStableFunc(slices.Values(hosts), hostname.NarrowerFirst) { // for the first of those that are the same on the listener counts
		a.attachTo(l, host)
	}
}

func (a *attachment) attachTo(l *Listener, host string) {
	p := &Piece{Of: a.Resource, Key: Key{Gateway: l.Name(), Host: host}, Hostname: host, HTTP: a.gatewayRules.requests, Extras: a.gatewayRules.extras}
	to := a.gatewayRules.connections
	switch {
	case to == nil:
		p.Key.Host = narrowed(host, l.hostname) // so that it is merged with what else is for that
	case l.protocol == "TLS" && l.passes:
		p.TLS = tls(to, 0, narrowed(host, l.hostname))
	default:
		p.TCP = tcp(to, 0)
	}
	a.add(p)
}

// narrowed is the host of a route on a listener.
func narrowed(host, listener string) string {
	if listener == "" {
		return host
	}
	return hostname.Common(host, listener)
}

// attachToHosts has sidecars follow the route for some services.
func (a *attachment) attachToHosts(hosts []string, port uint32) {
	if len(hosts) > 0 {
		a.meshRules = a.mesh.rules()
	}
	for _, host := range hosts {
		p := &Piece{Of: a.Resource, Key: Key{Gateway: meshGateway, Namespace: a.Resource.Namespace, Port: port, Host: strings.ToLower(host)}}
		switch a.Resource.Kind {
		case KindTLSRoute:
			for _, name := range a.serverNames(host) {
				p.TLS = append(p.TLS, tls(a.meshRules.connections, port, name)...)
			}
		case KindTCPRoute:
			p.TCP = tcp(a.meshRules.connections, port)
		default:
			p.HTTP, p.Extras = onPort(a.meshRules, port)
		}
		a.add(p)
	}
}

// serverNames are those that clients of a service ask for: the route's, or the service's.
func (a *attachment) serverNames(service string) []string {
	if len(a.spec.Hostnames) == 0 {
		return []string{service}
	}
	return a.hosts()
}

// add adds a piece that says something. Two parents may come to the same.
func (a *attachment) add(p *Piece) {
	if len(p.TCP)+len(p.TLS) > 0 {
		p.Key.Of = a.Resource.Key() // what is said of connections is not merged
	}
	if len(p.HTTP)+len(p.TCP)+len(p.TLS) == 0 || slices.ContainsFunc(a.pieces, func(other *Piece) bool { return other.Key == p.Key }) {
		return
	}
	a.pieces = append(a.pieces, p)
}
