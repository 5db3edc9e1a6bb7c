package istio

import (
	"fmt"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/convert/gateway"
	"github.com/pgmesh/pgmesh/mcp-client/convert/report"
)

// mesh is the gateway by which sidecars are meant.
const mesh = "mesh"

// virtualService is one on its way.
type virtualService struct {
	*conversion

	document        *kinds.Document
	namespace, name string
	spec            *networking.VirtualService
	at              report.Place
	actions         []*gateway.Action // of the http routes
	matches         [][]matched       // of the http routes
}

func (c *conversion) virtualService(d *kinds.Document) {
	v := &virtualService{
		conversion: c, document: d, namespace: d.Resource.Namespace, name: d.Resource.Name, spec: specOf[*networking.VirtualService](d), at: place(d),
	}
	if len(v.spec.GetHosts()) == 0 {
		c.Lose(v.at, "it has no hosts, since another VirtualService delegates to it: it is left out", "write its rules into the other")
		return
	}
	for _, scope := range v.spec.GetExportTo() {
		if scope != "*" {
			c.Lose(v.at.In("spec.exportTo"), "a route is not kept to namespaces", "attach it to what only they use")
			break
		}
	}
	v.readRules()
	for _, part := range v.parts() {
		part.write()
	}
	v.connections()
}

// readRules reads the rules of HTTP once, for all gateways.
func (v *virtualService) readRules() {
	for i, r := range v.spec.GetHttp() {
		at := v.at.In("spec.http[%d]", i)
		v.actions = append(v.actions, v.action(r, at))
		v.matches = append(v.matches, v.read(r, at))
	}
}

// target is a gateway, or the sidecars, and a port of it: 0 for all.
type target struct {
	gateway string
	port    uint32
}

// part is the rules that some targets have.
type part struct {
	*virtualService

	targets []target
	rules   []gateway.Rule
}

// parts are the rules for HTTP, divided by whom they are for.
func (v *virtualService) parts() (out []*part) {
	for _, t := range v.targets() {
		p := &part{v, []target{t}, v.rulesFor(t)}
		at := slices.IndexFunc(out, func(other *part) bool {
			return (other.targets[0].gateway == mesh) == (t.gateway == mesh) && slices.EqualFunc(other.rules, p.rules, sameRule)
		})
		if at >= 0 {
			out[at].targets = append(out[at].targets, t)
		} else if len(p.rules) > 0 {
			out = append(out, p)
		}
	}
	return out
}

func sameRule(a, b gateway.Rule) bool { return a.From == b.From }

func (v *virtualService) rulesFor(t target) (out []gateway.Rule) {
	for i, matches := range v.matches {
		for _, m := range matches {
			if m.isFor(t) {
				out = append(out, gateway.Rule{Match: m.match, Then: v.actions[i], From: m.at})
			}
		}
	}
	return out
}

// fullGateway is the name of a gateway with its namespace.
func fullGateway(name, namespace string) string {
	if name == mesh || strings.Contains(name, "/") {
		return name
	}
	return namespace + "/" + name
}

func (v *virtualService) gatewayNames() (out []string) {
	for _, name := range v.spec.GetGateways() {
		out = append(out, fullGateway(name, v.namespace))
	}
	if len(out) == 0 {
		return []string{mesh}
	}
	return out
}

// targets are all gateways, each for every port that some rule tells from others.
func (v *virtualService) targets() (out []target) {
	var ports []uint32
	for _, matches := range v.matches {
		for _, m := range matches {
			if m.port != 0 && !slices.Contains(ports, m.port) {
				ports = append(ports, m.port)
			}
		}
	}
	for _, name := range v.gatewayNames() {
		known := v.gateways[name]
		switch {
		case len(ports) == 0:
			out = append(out, target{name, 0})
		case known != nil:
			for _, port := range known.ports() {
				out = append(out, target{name, port})
			}
		default:
			for _, port := range ports {
				out = append(out, target{name, port})
			}
			v.Lose(v.at, "some rules are for ports: only the ports that are named are written for "+name, "add its other ports to parentRefs of a route of their own")
		}
	}
	return out
}

func (g *converted) ports() (out []uint32) {
	for _, l := range g.listeners {
		if port := uint32(l.Port); !slices.Contains(out, port) && l.Protocol != "TCP" && (l.TLS == nil || l.TLS.Mode != "Passthrough") {
			out = append(out, port)
		}
	}
	return out
}

// write writes the rules for their targets.
func (p *part) write() {
	r := gateway.Route{Namespace: p.namespace, Name: p.name, Rules: p.rules, From: p.at, TellUnreached: true}
	if p.targets[0].gateway == mesh {
		if len(p.gatewayNames()) > 1 {
			r.Name += "-mesh"
		}
		for _, t := range p.targets {
			r.Parents = append(r.Parents, p.services(t.port)...)
		}
	} else {
		r.Hostnames = p.hostnames()
		if r.Hostnames == nil && !slices.Contains(p.spec.GetHosts(), "*") {
			return
		}
		for _, t := range p.targets {
			r.Parents = append(r.Parents, p.parents(t)...)
		}
	}
	p.AddRoute(r)
}

// hostnames are those of a route for gateways; none for any.
func (v *virtualService) hostnames() (out []string) {
	for i, host := range v.spec.GetHosts() {
		host = strings.ToLower(fullHost(host, v.namespace))
		switch {
		case host == "*":
			return nil
		case strings.HasPrefix(host, "*") && !strings.HasPrefix(host, "*."):
			v.Lose(v.at.In("spec.hosts[%d]", i), fmt.Sprintf("a route cannot have the hostname %q: it is left out", host), "write *.example.com, or whole names")
		default:
			out = append(out, host)
		}
	}
	return out
}

// parents are the listeners of a gateway: all of them, unless some have clients use HTTPS.
func (v *virtualService) parents(t target) (out []gateway.Parent) {
	namespace, name, _ := strings.Cut(t.gateway, "/")
	parent := gateway.Parent{Name: name, Port: int(t.port)}
	if namespace != v.namespace {
		parent.Namespace = namespace
	}
	known := v.gateways[t.gateway]
	if known == nil {
		v.Note(v.at.In("spec.gateways"), fmt.Sprintf("the Gateway %s is not among what is converted", t.gateway), "convert it too, or have a Gateway of this name")
	}
	if known == nil || len(known.redirecting) == 0 {
		return []gateway.Parent{parent}
	}
	parent.Port = 0
	for _, l := range known.listeners {
		if slices.Contains(known.redirecting, l.Name) || l.Protocol != "HTTP" && l.Protocol != "HTTPS" || t.port != 0 && int(t.port) != l.Port {
			continue
		}
		parent.SectionName = l.Name
		out = append(out, parent)
	}
	return out
}

// services are the services that sidecars follow the route for.
func (v *virtualService) services(port uint32) (out []gateway.Parent) {
	for i, host := range v.spec.GetHosts() {
		at := v.at.In("spec.hosts[%d]", i)
		full := fullHost(host, v.namespace)
		name, namespace, ok := service(full)
		parent := gateway.Parent{Group: new(string), Kind: "Service", Name: name, Port: int(port)}
		if entry := v.entryOf(full); !ok && entry != nil {
			name, namespace, ok = entry.Resource.Name, entry.Resource.Namespace, v.hasAll(entry)
			named := group
			parent = gateway.Parent{Group: &named, Kind: "ServiceEntry", Name: name, Port: int(port)}
			if !ok {
				v.Lose(at, fmt.Sprintf("a route is for all hosts of the ServiceEntry %s/%s, and this is not: sidecars do not follow it", namespace, name),
					"divide the ServiceEntry")
				continue
			}
		}
		if !ok {
			v.Lose(at, fmt.Sprintf("which service has the host %s is not known: sidecars do not follow the route for it", host), "convert its ServiceEntry with it")
			continue
		}
		if namespace != v.namespace {
			parent.Namespace = namespace
			v.Lose(at, fmt.Sprintf("sidecars of other namespaces than %s do not follow a route of %s for a service of %s", v.namespace, v.namespace, namespace),
				"if they are to, move the route to the namespace of the service")
		}
		if !slices.ContainsFunc(out, func(p gateway.Parent) bool {
			return p.Name == parent.Name && p.Kind == parent.Kind && p.Namespace == parent.Namespace
		}) {
			out = append(out, parent)
		}
	}
	return out
}

// hasAll reports whether the VirtualService is for all hosts of a ServiceEntry.
func (v *virtualService) hasAll(entry *kinds.Document) bool {
	return !slices.ContainsFunc(specOf[*networking.ServiceEntry](entry).GetHosts(), func(host string) bool { return !slices.Contains(v.spec.GetHosts(), host) })
}
