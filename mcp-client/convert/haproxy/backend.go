package haproxy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/pgmesh/pgmesh/mcp-client/convert/gateway"
	"github.com/pgmesh/pgmesh/mcp-client/convert/haproxycfg"
	"github.com/pgmesh/pgmesh/mcp-client/convert/report"
	"github.com/pgmesh/pgmesh/mcp-client/convert/result"
)

// backend is a backend, which is written when it is used.
type backend struct {
	section *haproxycfg.Section
	done    bool
	to      gateway.Backend
	ok      bool // it has servers, and what it does can be said
	filters []gateway.Filter
}

// use writes a backend as a ServiceEntry, once.
func (c *conversion) use(b *backend, protocol string) {
	if b.done {
		return
	}
	b.done, b.ok = true, true
	s := b.section
	at := report.Place{File: s.File, Line: s.Line, Kind: s.Kind, Name: s.Name()}
	name := result.Name(s.Name())
	spec := gateway.ServiceOf(name + "." + c.Namespace + ".mesh")
	policy := gateway.TrafficPolicy{}
	for _, l := range s.From {
		c.ofBackend(b, l, &spec, &policy, protocol)
	}
	if len(spec.Endpoints) == 0 {
		c.Lose(at, "it has no servers: its requests are answered with 500", "")
		b.ok = false
		return
	}
	if slices.ContainsFunc(spec.Endpoints, func(e gateway.Endpoint) bool { return e.Weight > 1 }) {
		for i := range spec.Endpoints {
			spec.Endpoints[i].Weight = max(1, spec.Endpoints[i].Weight)
		}
	}
	c.AddOnce("ServiceEntry", c.Namespace, name, spec, at)
	if policy != (gateway.TrafficPolicy{}) {
		c.AddOnce("DestinationRule", c.Namespace, name, gateway.Policy{Host: spec.Hosts[0], Traffic: policy}, at)
	}
	b.to = gateway.Hostname(spec.Hosts[0], spec.Ports[0].Number)
}

// ofBackend reads a line of a backend.
func (c *conversion) ofBackend(b *backend, l haproxycfg.Line, spec *gateway.Service, policy *gateway.TrafficPolicy, protocol string) {
	ofFrontend := b.section.Kind == "listen" && slices.Contains([]string{"bind", "acl", "use_backend", "default_backend", "redirect", "http-request", "http-response"}, l.Word(0))
	switch word := l.Word(0); {
	case ofFrontend || word == "mode":
	case word == "server":
		c.server(l, spec, policy, protocol)
	case word == "balance":
		policy.LoadBalancer = c.balance(l)
	case (word == "http-request" || word == "http-response") && strings.HasSuffix(l.Word(1), "-header") && !slices.Contains(l.Words, "if") && !slices.Contains(l.Words, "unless"):
		b.filters = c.changed(b.filters, l)
	case word == "http-request" || word == "redirect" || word == "block" || word == "reqrep":
		c.Lose(place(l), "a route cannot say what this does: requests for the backend are answered with 500", "remove it, convert again, and write it into the rules of the route")
		b.ok = false
	default:
		c.other(l)
	}
}

func (c *conversion) balance(l haproxycfg.Line) *gateway.LoadBalancer {
	switch l.Word(1) {
	case "leastconn":
		return &gateway.LoadBalancer{Simple: "LEAST_REQUEST"}
	case "source":
		return &gateway.LoadBalancer{Hash: &gateway.HashedBy{SourceIP: true}}
	case "random":
		return &gateway.LoadBalancer{Simple: "RANDOM"}
	case "roundrobin", "static-rr":
		return &gateway.LoadBalancer{Simple: "ROUND_ROBIN"}
	}
	c.Lose(place(l), "there is no such balance: servers are chosen as for any service", "write loadBalancer into a DestinationRule")
	return nil
}

// server reads a server.
func (c *conversion) server(l haproxycfg.Line, spec *gateway.Service, policy *gateway.TrafficPolicy, protocol string) {
	host, number, found := l.Word(2), "", false
	if i := strings.LastIndexByte(host, ':'); i >= 0 {
		host, number, found = host[:i], host[i+1:], true
	}
	port, err := strconv.Atoi(number)
	if !found || err != nil || port < 1 || port > 65535 || strings.Contains(host, "@") || strings.HasPrefix(host, "/") {
		c.Lose(place(l), fmt.Sprintf("a server is at an address and a port, and not at %q: it is left out", l.Word(2)), "")
		return
	}
	e := gateway.Endpoint{Address: gateway.Address(host)}
	if c.serverWords(l, &e, policy) {
		spec.Add(e, gateway.ServicePort{Number: port, Name: strings.ToLower(protocol), Protocol: protocol})
	}
}

// serverWords reads what is said of a server, and reports whether it is to be asked.
func (c *conversion) serverWords(l haproxycfg.Line, e *gateway.Endpoint, policy *gateway.TrafficPolicy) bool {
	for i := 3; i < len(l.Words); i++ {
		switch word := l.Word(i); word {
		case "weight":
			i++
			e.Weight, _ = strconv.Atoi(l.Word(i))
			if e.Weight == 0 {
				return false
			}
		case "ssl":
			policy.TLS = &gateway.ClientTLS{Mode: "SIMPLE", Unchecked: true}
			c.Note(place(l), "the certificate of the server is not checked", "write a BackendTLSPolicy in the place of the DestinationRule, to have it checked")
		case "verify", "sni", "ca-file", "crt":
			i++
			if l.Word(i) != "none" {
				c.Lose(place(l), word+" is not taken over: the certificate of the server is not checked", "write a BackendTLSPolicy in the place of the DestinationRule")
			}
		case "backup", "disabled":
			c.Lose(place(l), "a server that is "+word+" is left out", "")
			return false
		case "check", "inter", "rise", "fall", "fastinter", "downinter", "maxconn", "maxqueue", "cookie", "port", "addr", "slowstart", "on-marked-down", "observe", "on-error", "error-limit":
			if word != "check" {
				i++
			}
			c.Lose(place(l), word+" is not taken over: gateways do not probe servers, and bound nothing", "write outlierDetection and connectionPool into a DestinationRule")
		default:
			c.Lose(place(l), word+" is not understood", "")
		}
	}
	return true
}

// changed adds a change of headers to filters.
func (c *conversion) changed(filters []gateway.Filter, l haproxycfg.Line) []gateway.Filter {
	name, value := l.Word(2), l.Word(3)
	if strings.Contains(value, "%[") || strings.Contains(value, "%{") {
		if !strings.EqualFold(name, "x-forwarded-proto") && !strings.EqualFold(name, "x-forwarded-for") {
			c.Lose(place(l), "a route sets headers to fixed values: "+name+" is not set", "gateways set x-forwarded-for, x-forwarded-proto and x-request-id by themselves")
		}
		return filters
	}
	if strings.EqualFold(name, "host") && l.Word(0) == "http-request" && l.Word(1) != "del-header" {
		return append(filters, gateway.Filter{Type: "URLRewrite", Rewrite: &gateway.Rewrite{Hostname: strings.ToLower(value)}})
	}
	m := modifierOf(&filters, l.Word(0) == "http-request")
	header := gateway.Header{Name: name, Value: value}
	switch l.Word(1) {
	case "set-header":
		m.Set = append(m.Set, header)
	case "add-header":
		m.Add = append(m.Add, header)
	default:
		m.Remove = append(m.Remove, name)
	}
	return filters
}

// modifierOf is the change of headers among filters, which is added if there is none.
func modifierOf(filters *[]gateway.Filter, request bool) *gateway.Modifier {
	for _, f := range *filters {
		if request && f.RequestHeaders != nil {
			return f.RequestHeaders
		}
		if !request && f.ResponseHeaders != nil {
			return f.ResponseHeaders
		}
	}
	m := &gateway.Modifier{}
	if request {
		*filters = append(*filters, gateway.Filter{Type: "RequestHeaderModifier", RequestHeaders: m})
	} else {
		*filters = append(*filters, gateway.Filter{Type: "ResponseHeaderModifier", ResponseHeaders: m})
	}
	return m
}
