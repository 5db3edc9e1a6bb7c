package nginx

import (
	"fmt"
	"net"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/pgmesh/pgmesh/mcp-client/convert/gateway"
	"github.com/pgmesh/pgmesh/mcp-client/convert/nginxconf"
	"github.com/pgmesh/pgmesh/mcp-client/convert/report"
	"github.com/pgmesh/pgmesh/mcp-client/convert/result"
)

// server is a server on its way.
type server struct {
	*conversion

	directive *nginxconf.Directive
	scope     scope
	names     []string
	ports     []port
	secret    string
	at        report.Place
	refuses   bool // all requests, since it cannot be said which
}

// port is one that a server listens on.
type port struct {
	number    int
	tls       bool
	byDefault bool // requests for names that no server has are for this one
}

func (c *conversion) server(d *nginxconf.Directive, inside scope) *server {
	s := &server{conversion: c, directive: d, scope: inside, at: place(d)}
	cert, key := "", ""
	for _, d := range d.Block {
		switch d.Name {
		case "listen":
			s.listensOn(d)
		case "server_name":
			s.named(d)
		case "ssl_certificate":
			s.secret = result.Name(strings.TrimSuffix(path.Base(d.Arg(0)), path.Ext(d.Arg(0))))
			if s.secret == "fullchain" || s.secret == "cert" { // certbot names all files alike, and the folder after the host
				s.secret = result.Name(path.Base(path.Dir(d.Arg(0))))
			}
			cert = d.Arg(0)
		case "ssl_certificate_key":
			key = d.Arg(0)
		default:
			c.other(d)
		}
	}
	if s.ports == nil {
		s.ports = []port{{number: 80}}
	}
	if len(s.names) > 0 {
		s.at.Name = s.names[0]
	}
	if s.secret != "" {
		c.Note(s.at, "the gateways need the secret "+s.secret, fmt.Sprintf("mcp-client secret create tls %s -n %s --cert %s --key %s --service-account ACCOUNT", s.secret, c.Namespace, cert, key))
	}
	return s
}

func (s *server) listensOn(d *nginxconf.Directive) {
	address := d.Arg(0)
	if strings.HasPrefix(address, "unix:") {
		s.Lose(place(d), "a listener is at a port: it is left out", "")
		return
	}
	p := port{tls: slices.Contains(d.Args, "ssl"), byDefault: slices.Contains(d.Args, "default_server") || slices.Contains(d.Args, "default")}
	host, number, err := net.SplitHostPort(address)
	if err != nil {
		host, number = "", address
		if strings.ContainsAny(address, ".[*") || !isNumber(address) {
			host, number = address, "80"
		}
	}
	if host = strings.Trim(host, "[]"); host != "" && host != "*" && host != "::" && host != "0.0.0.0" {
		s.Lose(place(d), fmt.Sprintf("the listener is at all addresses, and not at %s alone", host), "write the address into spec.addresses of the Gateway")
	}
	p.number, err = strconv.Atoi(number)
	if err != nil || p.number < 1 || p.number > 65535 {
		s.Lose(place(d), fmt.Sprintf("%q is no port: it is left out", number), "")
		return
	}
	if slices.Contains(d.Args, "proxy_protocol") || slices.Contains(d.Args, "quic") {
		s.Lose(place(d), "listeners have neither the PROXY protocol nor QUIC", "")
	}
	if !slices.ContainsFunc(s.ports, func(o port) bool { return o.number == p.number }) { // IPv4 and IPv6 are one listener
		s.ports = append(s.ports, p)
	}
}

func isNumber(text string) bool {
	_, err := strconv.Atoi(text)
	return err == nil
}

func (s *server) named(d *nginxconf.Directive) {
	for _, name := range d.Args {
		name = strings.ToLower(name)
		switch {
		case name == "_" || name == "":
		case strings.HasPrefix(name, "~") || strings.HasSuffix(name, "*") || strings.Contains(strings.TrimPrefix(name, "*."), "*"):
			s.Lose(place(d), fmt.Sprintf("a route cannot have the hostname %s: the server is left out for it", name), "write names, or *.example.com")
		case strings.HasPrefix(name, "."):
			s.names = append(s.names, name[1:], "*"+name)
		default:
			s.names = append(s.names, name)
		}
	}
}

// chooseDefaults has the first server of each port take what no server has a name for, if none says
// that it does.
func (c *conversion) chooseDefaults() {
	chosen := map[int]bool{}
	for _, s := range c.servers {
		for _, p := range s.ports {
			chosen[p.number] = chosen[p.number] || p.byDefault
		}
	}
	for _, s := range c.servers {
		for i, p := range s.ports {
			if !chosen[p.number] {
				s.ports[i].byDefault, chosen[p.number] = true, true
			}
		}
	}
}

// sectionName is that of the listener of a port, for a name of TLS.
func (p port) sectionName(name string) string {
	if !p.tls {
		return fmt.Sprintf("http-%d", p.number)
	}
	if name == "" {
		return fmt.Sprintf("https-%d", p.number)
	}
	return result.Name(fmt.Sprintf("https-%d-%s", p.number, strings.ReplaceAll(name, "*", "any")))
}

// listen adds the listeners that a server needs: one for a port of HTTP, and one for each name of TLS.
func (c *conversion) listen(s *server) {
	for _, p := range s.ports {
		if !p.tls {
			c.addListener(gateway.Listener{Name: p.sectionName(""), Port: p.number, Protocol: "HTTP"})
			continue
		}
		if s.secret == "" {
			c.Lose(s.at, fmt.Sprintf("it has no ssl_certificate: port %d is left out", p.number), "")
			continue
		}
		tls := &gateway.TLS{Mode: "Terminate", Certificates: []gateway.Ref{{Name: s.secret}}}
		if p.byDefault {
			c.addListener(gateway.Listener{Name: p.sectionName(""), Port: p.number, Protocol: "HTTPS", TLS: tls})
		}
		for _, name := range c.namesOn(s, p) {
			c.addListener(gateway.Listener{Name: p.sectionName(name), Hostname: name, Port: p.number, Protocol: "HTTPS", TLS: tls})
		}
	}
}

// namesOn are the names of a server that need to be said for a port: all, unless the server has what
// no other has a name for, and they are not within a name of another.
func (c *conversion) namesOn(s *server, p port) (out []string) {
	for _, name := range s.names {
		if !p.byDefault || c.within(name, s, p) || slices.ContainsFunc(s.conditions().all, func(one condition) bool { return one.is == name }) {
			out = append(out, name)
		}
	}
	return out
}

// within reports whether another server of the port has a pattern for a name.
func (c *conversion) within(name string, s *server, p port) bool {
	return slices.ContainsFunc(c.servers, func(o *server) bool {
		return o != s && slices.ContainsFunc(o.ports, func(other port) bool { return other.number == p.number }) &&
			slices.ContainsFunc(o.names, func(pattern string) bool {
				return strings.HasPrefix(pattern, "*.") && strings.HasSuffix(name, pattern[1:])
			})
	})
}

func (c *conversion) addListener(l gateway.Listener) {
	if !slices.ContainsFunc(c.listeners, func(o gateway.Listener) bool { return o.Name == l.Name }) {
		c.listeners = append(c.listeners, l)
	}
}

// write writes the routes of a server: for its names, and for what no server has a name for.
func (c *conversion) write(s *server) {
	conditions := s.conditions()
	for _, scheme := range []string{"http", "https"} {
		c.writeNamed(s, scheme, conditions)
		r := gateway.Route{Namespace: c.Namespace, Name: c.routeName(nil, scheme, s), From: s.at}
		for _, p := range s.portsOf(scheme) {
			if p.byDefault {
				r.Parents = append(r.Parents, gateway.Parent{Name: c.Gateway, SectionName: p.sectionName("")})
			}
		}
		if len(r.Parents) > 0 {
			r.Rules = s.rules(request{"", scheme}, conditions)
			c.AddRoute(r)
		}
	}
}

// portsOf are those of a scheme that can be served.
func (s *server) portsOf(scheme string) (out []port) {
	for _, p := range s.ports {
		if p.tls == (scheme == "https") && (!p.tls || s.secret != "") {
			out = append(out, p)
		}
	}
	return out
}

// writeNamed writes the routes for the names of a server.
func (c *conversion) writeNamed(s *server, scheme string, conditions conditions) {
	for _, names := range conditions.divided(s.names) {
		r := gateway.Route{Namespace: c.Namespace, Name: c.routeName(names, scheme, s), From: s.at}
		for _, p := range s.portsOf(scheme) {
			for _, name := range c.namesOn(s, p) {
				if !slices.Contains(names, name) {
					continue
				}
				if !slices.Contains(r.Hostnames, name) {
					r.Hostnames = append(r.Hostnames, name)
				}
				parent := gateway.Parent{Name: c.Gateway, SectionName: p.sectionName(name)}
				if !slices.Contains(r.Parents, parent) {
					r.Parents = append(r.Parents, parent)
				}
			}
		}
		if len(r.Parents) > 0 {
			r.Rules = s.rules(request{r.Hostnames[0], scheme}, conditions)
			c.AddRoute(r)
		}
	}
}

func (c *conversion) routeName(names []string, scheme string, s *server) string {
	name := "default"
	if len(names) > 0 {
		name = strings.TrimPrefix(names[0], "*.")
	} else if len(s.names) > 0 {
		name = strings.TrimPrefix(s.names[0], "*.") + "-and-others"
	}
	if len(s.ports) > 1 || scheme == "https" {
		name += "-" + scheme
	}
	return result.Name(name)
}
