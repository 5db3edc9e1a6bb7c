package nginx

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/pgmesh/pgmesh/mcp-client/convert/gateway"
	"github.com/pgmesh/pgmesh/mcp-client/convert/nginxconf"
	"github.com/pgmesh/pgmesh/mcp-client/convert/precedence"
	"github.com/pgmesh/pgmesh/mcp-client/convert/report"
	"github.com/pgmesh/pgmesh/mcp-client/convert/result"
)

// service is what an upstream or an address became.
type service struct {
	host string
	port int
	ok   bool
}

var passed = regexp.MustCompile(`^(https?|grpcs?)://([^/$]+)(\$request_uri|/[^$]*)?$`)

// pass converts proxy_pass, with a rewrite before it; nil if it cannot be said.
func (l *location) pass(d, rewrites *nginxconf.Directive) *gateway.Action {
	parts := passed.FindStringSubmatch(d.Arg(0))
	if parts == nil || strings.HasPrefix(parts[2], "unix:") {
		l.Lose(place(d), fmt.Sprintf("a route cannot say where %s leads%s", d.Arg(0), refused), "write names and addresses, without variables")
		return nil
	}
	to := l.service(parts[2], parts[1], l.scope.name, d)
	if !to.ok {
		return nil
	}
	a := &gateway.Action{Backends: []gateway.Backend{gateway.Hostname(to.host, to.port)}}
	rewrite := &gateway.Rewrite{}
	if !l.rewritePath(rewrite, strings.TrimSuffix(parts[3], "$request_uri"), rewrites, d) {
		return nil
	}
	l.headers(a, rewrite, parts[2], d)
	if *rewrite != (gateway.Rewrite{}) {
		a.Filters = append(a.Filters, gateway.Filter{Type: "URLRewrite", Rewrite: rewrite})
	}
	return a
}

// rewritePath converts what replaces the path: the address of proxy_pass, or a rewrite. It reports
// whether there is such a replacement.
func (l *location) rewritePath(out *gateway.Rewrite, with string, rewrites, d *nginxconf.Directive) bool {
	if rewrites != nil {
		prefix, to, ok := rewritten(rewrites)
		if !ok || with != "" || rewrites.Arg(2) != "break" || joinable(prefix) != joinable(l.path.Text) || l.path.Form == precedence.Exact {
			l.Lose(place(rewrites), "only a rewrite of the location's own prefix, ^/prefix/(.*)$ to /other/$1 with break, can be said"+refused, "write proxy_pass with a path")
			return false
		}
		out.Path = gateway.PrefixPath(to)
		return true
	}
	own := l.path.Text
	switch {
	case with == "":
	case l.path.Form == precedence.Exact:
		out.Path = gateway.FullPath(with)
	case l.path.Form == precedence.Regex || strings.HasSuffix(own, "/") != strings.HasSuffix(with, "/"):
		l.Lose(place(d), fmt.Sprintf("a route joins paths by one slash, so %s in the place of %s cannot be said%s", with, own, refused), "have both end in a slash, or none")
		return false
	case own != with:
		out.Path = gateway.PrefixPath(joinable(with))
	}
	return true
}

// hostname is what a rewritten Host may be.
var hostname = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)

// headers converts changes of headers. Servers are asked for the name of the upstream, unless the Host
// is passed on.
func (l *location) headers(a *gateway.Action, rewrite *gateway.Rewrite, upstream string, d *nginxconf.Directive) {
	request, host := &gateway.Modifier{}, strings.ToLower(upstream)
	for _, h := range l.scope.requestHeaders {
		name, value := h.Arg(0), h.Arg(1)
		switch {
		case strings.EqualFold(name, "host"):
			host = strings.ToLower(value)
			if slices.Contains([]string{"$host", "$http_host", "$host:$server_port", "$server_name"}, host) {
				host = ""
			}
			if host == "$proxy_host" {
				host = strings.ToLower(upstream)
			}
		case value == "":
			request.Remove = append(request.Remove, name)
		case !strings.Contains(value, "$"):
			request.Set = append(request.Set, gateway.Header{Name: name, Value: value})
		case !byItself(name, value):
			l.each.Lose(place(h), fmt.Sprintf("a route sets headers to fixed values: %s is not set", name), "gateways set x-forwarded-for, x-forwarded-proto and x-request-id by themselves")
		}
	}
	switch {
	case host == "":
	case hostname.MatchString(host):
		rewrite.Hostname = host
	default:
		l.each.Lose(place(d), "servers are asked for the host of the request, and not for "+host, "pass it on with proxy_set_header Host $host")
	}
	if !request.Empty() {
		a.Filters = append(a.Filters, gateway.Filter{Type: "RequestHeaderModifier", RequestHeaders: request})
	}
	l.addHeaders(a, l.scope)
}

// addHeaders converts what is added to responses. NGINX adds it to redirections, too, whether or not it says always.
func (s *server) addHeaders(a *gateway.Action, in scope) {
	response := &gateway.Modifier{}
	for _, h := range in.responseHeaders {
		if strings.Contains(h.Arg(1), "$") {
			s.each.Lose(place(h), fmt.Sprintf("a route sets headers to fixed values: %s is not added", h.Arg(0)), "")
			continue
		}
		response.Add = append(response.Add, gateway.Header{Name: h.Arg(0), Value: h.Arg(1)})
	}
	if !response.Empty() {
		a.Filters = append(a.Filters, gateway.Filter{Type: "ResponseHeaderModifier", ResponseHeaders: response})
	}
}

// byItself reports whether a gateway does by itself what a header with a variable is for.
func byItself(name, value string) bool {
	switch strings.ToLower(name) {
	case "x-forwarded-for":
		return value == "$proxy_add_x_forwarded_for" || value == "$remote_addr"
	case "x-forwarded-proto":
		return value == "$scheme"
	case "upgrade":
		return value == "$http_upgrade"
	case "connection":
		return value == "$connection_upgrade" || value == "$http_connection"
	}
	return false
}

// service is that of an upstream, or of an address. It is written once.
func (c *conversion) service(to, scheme, name string, d *nginxconf.Directive) service {
	key := scheme + "://" + to
	if known, is := c.services[key]; is {
		return known
	}
	s := c.backends(to, scheme, name, d)
	if !s.ok {
		c.Lose(place(d), fmt.Sprintf("%s has no servers%s", to, refused), "")
	}
	c.services[key] = s
	return s
}

// backends writes the ServiceEntry of an upstream, or of an address, and how it is spoken to.
func (c *conversion) backends(to, scheme, serverName string, d *nginxconf.Directive) service {
	at, servers := place(d), []*nginxconf.Directive{{Name: "server", Args: []string{to}, File: d.File, Line: d.Line}}
	name, port := result.Name(to), gateway.ServicePort{Number: 80, Name: "http", Protocol: "HTTP"}
	if strings.HasPrefix(scheme, "grpc") {
		port.Name, port.Protocol = "grpc", "GRPC"
	}
	var policy gateway.TrafficPolicy
	if strings.HasSuffix(scheme, "s") {
		name, port.Number = name+"-tls", 443
		policy.TLS = &gateway.ClientTLS{Mode: "SIMPLE", SNI: serverName, Unchecked: true}
		c.each.Note(place(d), "the certificate of the servers is not checked, as NGINX does not by default", "write a BackendTLSPolicy in the place of the DestinationRule, to have it checked")
	}
	if upstream := c.upstreams[to]; upstream != nil {
		at = place(upstream)
		servers, policy.LoadBalancer = c.upstream(upstream)
	}
	host := name + "." + c.Namespace + ".mesh"
	if number := c.entry(name, host, port, servers, at); number != 0 {
		if policy != (gateway.TrafficPolicy{}) {
			c.AddOnce("DestinationRule", c.Namespace, name, gateway.Policy{Host: host, Traffic: policy}, at)
		}
		return service{host, number, true}
	}
	return service{}
}

// entry writes the ServiceEntry of servers, and returns its port: that of the first server. It is 0 if
// there is none.
func (c *conversion) entry(name, host string, port gateway.ServicePort, servers []*nginxconf.Directive, at report.Place) int {
	spec := gateway.ServiceOf(host)
	weighted := slices.ContainsFunc(servers, func(d *nginxconf.Directive) bool { return weight(d) != 1 })
	standard := port.Number
	for _, d := range servers {
		e, number, ok := c.endpoint(d, standard)
		if !ok {
			continue
		}
		if weighted {
			e.Weight = weight(d)
		}
		port.Number = number
		spec.Add(e, port)
	}
	if len(spec.Endpoints) == 0 {
		return 0
	}
	c.AddOnce("ServiceEntry", c.Namespace, name, spec, at)
	return spec.Ports[0].Number
}

// upstream reads the servers of an upstream, and how they are chosen.
func (c *conversion) upstream(d *nginxconf.Directive) (servers []*nginxconf.Directive, policy *gateway.LoadBalancer) {
	for _, d := range d.Block {
		switch d.Name {
		case "server":
			servers = append(servers, d)
		case "least_conn":
			policy = &gateway.LoadBalancer{Simple: "LEAST_REQUEST"}
		case "random":
			policy = &gateway.LoadBalancer{Simple: "RANDOM"}
		case "ip_hash":
			policy = &gateway.LoadBalancer{Hash: &gateway.HashedBy{SourceIP: true}}
		default:
			c.other(d)
		}
	}
	return servers, policy
}

func weight(d *nginxconf.Directive) int {
	for _, arg := range d.Args {
		if text, is := strings.CutPrefix(arg, "weight="); is {
			if n, err := strconv.Atoi(text); err == nil {
				return n
			}
		}
	}
	return 1
}

// endpoint reads a server. One that is down, or that waits for others to fail, is none.
func (c *conversion) endpoint(d *nginxconf.Directive, standard int) (e gateway.Endpoint, port int, ok bool) {
	at := report.Place{File: d.File, Line: d.Line, Path: "server"}
	for _, arg := range d.Args[min(1, len(d.Args)):] {
		switch name, _, _ := strings.Cut(arg, "="); name {
		case "weight":
		case "down":
			c.each.Note(at, "it is down, and left out", "")
			return e, 0, false
		case "backup":
			c.each.Lose(at, "a server that waits for the others to fail is left out", "give its endpoint a locality, and write localityLbSetting into a DestinationRule")
			return e, 0, false
		case "max_fails", "fail_timeout", "slow_start", "max_conns":
			c.each.Lose(at, name+" is not taken over", "write outlierDetection, connectionPool or warmup into a DestinationRule")
		default:
			c.each.Lose(at, arg+" is not understood", "")
		}
	}
	if strings.HasPrefix(d.Arg(0), "unix:") {
		c.each.Lose(at, "a server is at a port: it is left out", "")
		return e, 0, false
	}
	e.Address, port = d.Arg(0), standard
	if i := strings.LastIndexByte(e.Address, ':'); i >= 0 && !strings.HasSuffix(e.Address, "]") {
		n, err := strconv.Atoi(e.Address[i+1:])
		if err != nil {
			c.each.Lose(at, "its port is no number: it is left out", "")
			return e, 0, false
		}
		e.Address, port = e.Address[:i], n
	}
	e.Address = gateway.Address(e.Address)
	return e, port, true
}
