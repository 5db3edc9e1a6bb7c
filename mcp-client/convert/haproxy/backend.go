package haproxy

import (
	"fmt"
	"maps"
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
		c.each.Lose(report.Place{File: l.File, Line: l.Line, Path: "server"}, fmt.Sprintf("a server is at an address and a port, and not at %q: it is left out", l.Word(2)), "")
		return
	}
	e := gateway.Endpoint{Address: gateway.Address(host)}
	if c.serverWords(l, &e, policy) {
		spec.Add(e, gateway.ServicePort{Number: port, Name: strings.ToLower(protocol), Protocol: protocol})
	}
}

// serverWords reads what is said of a server, and reports whether it is to be asked.
func (c *conversion) serverWords(l haproxycfg.Line, e *gateway.Endpoint, policy *gateway.TrafficPolicy) bool {
	at := report.Place{File: l.File, Line: l.Line, Path: "server"}
	untaken := map[string][]string{} // words by what becomes of them
	defer func() { c.tellServer(at, untaken) }()
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
			c.each.Note(at, "the certificate of the server is not checked", "write a BackendTLSPolicy in the place of the DestinationRule, to have it checked")
		case "verify", "sni", "ca-file", "crt":
			i++
			if l.Word(i) != "none" {
				c.each.Lose(at, word+" is not taken over: the certificate of the server is not checked", "write a BackendTLSPolicy in the place of the DestinationRule")
			}
		case "backup", "disabled":
			c.each.Lose(at, "a server that is "+word+" is left out", "give its endpoint a locality, and write localityLbSetting into a DestinationRule, if it is to stand in for others")
			return false
		default:
			of := serverWord[word]
			untaken[of] = append(untaken[of], word)
			if of != "" && !flags[word] {
				i++
			}
		}
	}
	return true
}

// serverWord says what becomes of words about a server.
var serverWord = map[string]string{
	"check": probing, "inter": probing, "rise": probing, "fall": probing, "fastinter": probing, "downinter": probing, "port": probing, "addr": probing, "check-ssl": probing,
	"on-marked-down": probing, "on-marked-up": probing, "observe": probing, "on-error": probing, "error-limit": probing, "agent-check": probing, "agent-port": probing, "agent-inter": probing,
	"maxconn": bounding, "maxqueue": bounding, "minconn": bounding, "cookie": staying, "slowstart": warming,
	"send-proxy": announcing, "send-proxy-v2": announcing, "resolvers": naming, "init-addr": naming, "resolve-prefer": naming,
}

// flags are words that no value follows.
var flags = map[string]bool{"check": true, "check-ssl": true, "agent-check": true, "send-proxy": true, "send-proxy-v2": true}

// What becomes of words about a server, with what to do.
const (
	probing    = "servers are not probed"
	bounding   = "connections to a server are not bounded"
	staying    = "clients are not kept with their server"
	warming    = "a server that is new has its whole share at once"
	announcing = "servers are not told of the client by the PROXY protocol"
	naming     = "Envoy asks the resolver of its machine for names"
)

var insteadOf = map[string]string{
	probing:    unprobed.instead,
	bounding:   "write connectionPool into a DestinationRule",
	staying:    "write sessionPersistence into the rules of the route: docs/gateway-api.md",
	warming:    "write loadBalancer.warmup into a DestinationRule",
	announcing: "have them read x-forwarded-for",
	naming:     "",
	"":         "if it matters to requests, say it by hand",
}

// tellServer tells of words that are not taken over: once for all servers of which the same is said.
func (c *conversion) tellServer(at report.Place, untaken map[string][]string) {
	for _, of := range slices.Sorted(maps.Keys(untaken)) {
		what := of
		if of == "" {
			what = "not known here"
		}
		c.each.Lose(at, what+": "+strings.Join(untaken[of], ", "), insteadOf[of])
	}
}

// changed adds a change of headers to filters.
func (c *conversion) changed(filters []gateway.Filter, l haproxycfg.Line) []gateway.Filter {
	name, value := l.Word(2), l.Word(3)
	if strings.Contains(value, "%[") || strings.Contains(value, "%{") {
		if !strings.EqualFold(name, "x-forwarded-proto") && !strings.EqualFold(name, "x-forwarded-for") {
			c.each.Lose(place(l), "a route sets headers to fixed values: "+name+" is not set", "gateways set x-forwarded-for, x-forwarded-proto and x-request-id by themselves")
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
