package mesh

import (
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/configstore"
	"github.com/pgmesh/pgmesh/discovery/gatewayapi"
	"github.com/pgmesh/pgmesh/kinds"
)

// annotationService lists hosts of services in a Gateway's namespace whose workloads serve the
// Gateway. Istio writes it for the gateways of the Gateway API.
const annotationService = "internal.istio.io/gateway-service"

// labelAsIs on a router's ServiceEntry says that ports of Gateways are the ports that the router
// listens on, not the ServiceEntry's.
const labelAsIs = "experimental.istio.io/disable-gateway-port-translation"

// gateway is a Gateway and its servers. Each listener of a Gateway of the Gateway API is one.
type gateway struct {
	resource *kinds.Resource
	// namespace is that of the machines that serve it, and from what it is made from.
	namespace string
	from      []kinds.Key
	// listener is set for one of the Gateway API: only machines of its namespace serve it, and at
	// has the path of its only server.
	listener bool
	at       string
	name     string // as VirtualServices write it: namespace/name
	selector map[string]string
	services []string // hosts of the services that serve it; nil if the selector decides
	// addresses are those that it is for, where a router has one of them.
	addresses []string
	// shows is the credential of what routers show to backends.
	shows   string
	servers []*Server
}

// gatewayIndex is every Gateway, the oldest first.
type gatewayIndex struct {
	all       []*gateway
	read      map[*kinds.Resource]*gateway
	selectors labelKeys
	names     labelNames // of selectors
	addresses []string   // of all, sorted
}

// buildGateways indexes the Gateways that a step leads to. It reads only those that changed, and
// keeps the index of prev if none did.
func buildGateways(now configstore.Step, prev *Mesh, api *apiIndex) gatewayIndex {
	if prev.unchanged(now, kindGateway) && api.listening == prev.api.listening {
		return prev.gateways
	}
	index := gatewayIndex{read: map[*kinds.Resource]*gateway{}, selectors: labelKeys{}}
	for r := range now.Of(kindGateway) {
		index.add(r, prev.gateways.read[r], readGateway)
	}
	for _, of := range api.gateways.each() {
		for _, l := range of.Listeners {
			if !l.Served() {
				continue
			}
			index.add(l.Resource, prev.gateways.read[l.Resource], func(*kinds.Resource) *gateway { return readListener(of, l) })
		}
	}
	slices.SortFunc(index.all, func(a, b *gateway) int { return kinds.CompareAge(a.resource, b.resource) })
	index.names, index.addresses = namesIn([]labelKeys{index.selectors}), sortedOnce(index.addresses)
	return index
}

// add adds a Gateway, which is read if it was not before.
func (x *gatewayIndex) add(r *kinds.Resource, known *gateway, read func(*kinds.Resource) *gateway) {
	if known == nil {
		known = read(r)
	}
	x.read[r] = known
	x.all = append(x.all, known)
	x.selectors.add(known.selector)
	x.addresses = append(x.addresses, known.addresses...)
}

func readGateway(r *kinds.Resource) *gateway {
	spec := specOf[*networking.Gateway](r)
	g := &gateway{resource: r, namespace: r.Namespace, from: []kinds.Key{r.Key()}, name: r.Namespace + "/" + r.Name, selector: spec.GetSelector()}
	if hosts := r.Annotations[annotationService]; hosts != "" {
		g.services = strings.Split(hosts, ",")
	}
	for i, server := range spec.GetServers() {
		g.servers = append(g.servers, readServer(g, i, server))
	}
	return g
}

// readListener reads a listener of a Gateway of the Gateway API, which may stand in a ListenerSet.
func readListener(of *gatewayapi.Gateway, l *gatewayapi.Listener) *gateway {
	spec := specOf[*networking.Gateway](l.Resource)
	g := &gateway{
		resource: l.Resource, namespace: of.Resource.Namespace, from: []kinds.Key{l.Of.Key()}, listener: true, at: l.Path,
		name: l.Name(), selector: spec.GetSelector(), services: of.Services, addresses: of.Addresses,
		shows: of.Shows,
	}
	if l.Of != of.Resource {
		g.from = append(g.from, of.Resource.Key())
	}
	g.servers = []*Server{readServer(g, 0, spec.GetServers()[0])}
	return g
}

// selects reports whether a router that serves these targets serves the Gateway.
func (g *gateway) selects(p *Proxy, targets []Target) bool {
	if g.services == nil {
		return kinds.LabelsWithin(g.selector, p.Labels) && (!g.listener || g.namespace == p.Namespace)
	}
	return len(g.own(targets)) > 0
}

// own returns the targets of the services that serve the Gateway.
func (g *gateway) own(targets []Target) []Target {
	var out []Target
	for _, t := range targets {
		if t.Service.Namespace == g.namespace && slices.Contains(g.services, t.Service.Hostname) {
			out = append(out, t)
		}
	}
	return out
}

// listensOn lists the ports on which the router listens for a server of the Gateway's. If the router
// serves a service with the server's port, it is the port behind it; otherwise it is the port as
// written.
func (g *gateway) listensOn(s *Server, targets []Target) []uint32 {
	port := s.Spec.GetPort().GetNumber()
	stands := func(t Target) bool { return t.Port.Number == port && t.TakesDatagrams() == s.takesDatagrams() }
	if g.services != nil {
		var out []uint32
		for _, t := range g.own(targets) {
			if stands(t) && !slices.Contains(out, t.Number) {
				out = append(out, t.Number)
			}
		}
		return out
	}
	for _, t := range targets {
		_, asIs := t.Service.Entry.Labels[labelAsIs]
		if stands(t) && !asIs {
			return []uint32{t.Number}
		}
	}
	return []uint32{port}
}
