package mesh

import (
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/configstore"
	"github.com/pgmesh/pgmesh/kinds"
)

// annotationService lists hosts of services in a Gateway's namespace whose workloads serve the
// Gateway. Istio writes it for the gateways of the Gateway API.
const annotationService = "internal.istio.io/gateway-service"

// labelAsIs on a router's ServiceEntry says that ports of Gateways are the ports that the router
// listens on, not the ServiceEntry's.
const labelAsIs = "experimental.istio.io/disable-gateway-port-translation"

// gateway is a Gateway and its servers.
type gateway struct {
	resource *kinds.Resource
	name     string // as VirtualServices write it: namespace/name
	selector map[string]string
	services []string // hosts of the services that serve it; nil if the selector decides
	servers  []*Server
}

// gatewayIndex is every Gateway, the oldest first.
type gatewayIndex struct {
	all       []*gateway
	read      map[*kinds.Resource]*gateway
	selectors labelKeys
	names     labelNames // of selectors
}

// buildGateways indexes the Gateways that a step leads to. It reads only those that changed, and
// keeps the index of prev if none did.
func buildGateways(now configstore.Step, prev *Mesh) gatewayIndex {
	if prev.unchanged(now, kindGateway) {
		return prev.gateways
	}
	index := gatewayIndex{read: map[*kinds.Resource]*gateway{}, selectors: labelKeys{}}
	for r := range now.Of(kindGateway) {
		g, known := prev.gateways.read[r]
		if !known {
			g = readGateway(r)
		}
		index.read[r] = g
		index.all = append(index.all, g)
		index.selectors.add(g.selector)
	}
	index.names = namesIn([]labelKeys{index.selectors})
	return index
}

func readGateway(r *kinds.Resource) *gateway {
	spec := specOf[*networking.Gateway](r)
	g := &gateway{resource: r, name: r.Namespace + "/" + r.Name, selector: spec.GetSelector()}
	if hosts := r.Annotations[annotationService]; hosts != "" {
		g.services = strings.Split(hosts, ",")
	}
	for i, server := range spec.GetServers() {
		g.servers = append(g.servers, readServer(g, i, server))
	}
	return g
}

// selects reports whether a router with these labels, which serves these targets, serves the
// Gateway.
func (g *gateway) selects(labels map[string]string, targets []Target) bool {
	if g.services == nil {
		return kinds.LabelsWithin(g.selector, labels)
	}
	return len(g.own(targets)) > 0
}

// own returns the targets of the services that serve the Gateway.
func (g *gateway) own(targets []Target) []Target {
	var out []Target
	for _, t := range targets {
		if t.Service.Namespace == g.resource.Namespace && slices.Contains(g.services, t.Service.Hostname) {
			out = append(out, t)
		}
	}
	return out
}

// listensOn lists the ports on which the router listens for a port of the Gateway's. If the router
// serves a service with that port, it is the port behind it; otherwise it is the port as written.
func (g *gateway) listensOn(port uint32, targets []Target) []uint32 {
	if g.services != nil {
		var out []uint32
		for _, t := range g.own(targets) {
			if t.Port.Number == port && !slices.Contains(out, t.Number) {
				out = append(out, t.Number)
			}
		}
		return out
	}
	for _, t := range targets {
		_, asIs := t.Service.Entry.Labels[labelAsIs]
		if t.Port.Number == port && !asIs {
			return []uint32{t.Number}
		}
	}
	return []uint32{port}
}
