package istio

import (
	"fmt"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/convert/gateway"
	"github.com/pgmesh/pgmesh/mcp-client/convert/report"
	"github.com/pgmesh/pgmesh/mcp-client/convert/result"
)

// converted is a Gateway with its listeners.
type converted struct {
	namespace, name string
	listeners       []gateway.Listener
	redirecting     []string // the names of listeners that have all clients use HTTPS
}

// protocols of ports, as listeners have them.
var protocols = map[string]string{
	"HTTP": "HTTP", "HTTP2": "HTTP", "GRPC": "HTTP", "GRPC-WEB": "HTTP", "HTTPS": "HTTPS", "TLS": "TLS",
	"TCP": "TCP", "MONGO": "TCP", "MYSQL": "TCP", "REDIS": "TCP",
}

// gateway converts a Gateway.
func (c *conversion) gateway(d *kinds.Document) {
	in, at := specOf[*networking.Gateway](d), place(d)
	g := &converted{namespace: d.Resource.Namespace, name: d.Resource.Name}
	c.gateways[g.namespace+"/"+g.name] = g
	spec := gateway.Gateway{Class: c.Class}
	for i, server := range in.GetServers() {
		c.server(g, &spec, server, at.In("spec.servers[%d]", i))
	}
	if len(g.listeners) == 0 {
		c.Lose(at, "no server of it can be a listener: the Gateway is left out", "")
		return
	}
	c.Note(at.In("spec.selector"), "a Gateway of the Gateway API chooses no machines by labels",
		fmt.Sprintf("start those that are to serve it with mesh-agent run --role gateway --gateway %s, or name their service in spec.addresses", g.name))
	spec.Listeners = g.listeners
	c.Add("Gateway", g.namespace, g.name, spec, at)
	c.redirect(g, at)
}

// server converts a server: a listener for each host.
func (c *conversion) server(g *converted, spec *gateway.Gateway, in *networking.Server, at report.Place) {
	port := in.GetPort()
	protocol, known := protocols[strings.ToUpper(port.GetProtocol())]
	tls, ok := c.tls(g, spec, in, at)
	if !known || !ok {
		if !known {
			c.Lose(at.In("port.protocol"), fmt.Sprintf("there are no listeners of %s: the server is left out", port.GetProtocol()), "")
		}
		return
	}
	c.leftOut(in, at)
	for _, host := range in.GetHosts() {
		namespace, name, found := strings.Cut(host, "/")
		if !found {
			namespace, name = "*", host
		}
		if name == "*" {
			name = ""
		}
		l := gateway.Listener{
			Name: c.listenerName(g, in, name), Hostname: strings.ToLower(name), Port: int(port.GetNumber()), Protocol: protocol, TLS: tls,
			AllowedRoutes: allowed(namespace, g.namespace),
		}
		if strings.HasPrefix(name, "*") && !strings.HasPrefix(name, "*.") {
			c.Lose(at.In("hosts"), fmt.Sprintf("a listener cannot have the hostname %q: it is left out", name), "write *.example.com, or whole names")
			continue
		}
		if same := g.like(l); same != nil {
			continue
		}
		g.listeners = append(g.listeners, l)
		if in.GetTls().GetHttpsRedirect() {
			g.redirecting = append(g.redirecting, l.Name)
		}
	}
}

// leftOut tells of fields that listeners do not have.
func (c *conversion) leftOut(in *networking.Server, at report.Place) {
	if in.GetBind() != "" {
		c.Lose(at.In("bind"), "a listener is bound to no address of its own", "write the address into spec.addresses of the Gateway")
	}
	if in.GetDefaultEndpoint() != "" {
		c.Lose(at.In("defaultEndpoint"), "a listener has no default endpoint", "write a route without hostnames")
	}
}

// like is a listener that is the same but for its name.
func (g *converted) like(l gateway.Listener) *gateway.Listener {
	for i, other := range g.listeners {
		if other.Port == l.Port && other.Hostname == l.Hostname && other.Protocol == l.Protocol {
			return &g.listeners[i]
		}
	}
	return nil
}

// listenerName is that of the server's port, with the host where the server has several.
func (c *conversion) listenerName(g *converted, in *networking.Server, host string) string {
	name := in.GetPort().GetName()
	if name == "" {
		name = fmt.Sprintf("%s-%d", strings.ToLower(in.GetPort().GetProtocol()), in.GetPort().GetNumber())
	}
	if len(in.GetHosts()) > 1 && host != "" {
		name += "-" + strings.TrimPrefix(host, "*.")
	}
	name = result.Name(name)
	wanted := name
	for n := 2; slices.ContainsFunc(g.listeners, func(l gateway.Listener) bool { return l.Name == name }); n++ {
		name = fmt.Sprintf("%s-%d", wanted, n)
	}
	return name
}

// allowed says whose routes a listener takes, as the namespace before a host says.
func allowed(namespace, own string) *gateway.AllowedRoutes {
	switch namespace {
	case "*":
		return &gateway.AllowedRoutes{Namespaces: gateway.Namespaces{From: "All"}}
	case ".", own:
		return nil
	}
	return &gateway.AllowedRoutes{Namespaces: gateway.Namespaces{From: "Selector", Selector: &gateway.Selector{
		Expressions: []gateway.Expression{{Key: "kubernetes.io/metadata.name", Operator: "In", Values: []string{namespace}}},
	}}}
}

// redirect has listeners tell their clients to use HTTPS.
func (c *conversion) redirect(g *converted, at report.Place) {
	if len(g.redirecting) == 0 {
		return
	}
	var parents []gateway.Parent
	for _, name := range g.redirecting {
		parents = append(parents, gateway.Parent{Name: g.name, SectionName: name})
	}
	c.AddRoute(gateway.Route{
		Namespace: g.namespace, Name: g.name + "-to-https", Parents: parents, From: at,
		Rules: []gateway.Rule{{From: at, Then: &gateway.Action{Filters: []gateway.Filter{{
			Type: "RequestRedirect", Redirect: &gateway.Redirect{Scheme: "https", StatusCode: 301},
		}}}}},
	})
}
