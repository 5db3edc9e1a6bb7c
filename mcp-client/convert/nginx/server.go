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
}

// port is one that a server listens on.
type port struct {
	number    int
	tls       bool
	byDefault bool // requests for names that no server has are for this one
}

func (c *conversion) server(d *nginxconf.Directive, inside scope) *server {
	s := &server{conversion: c, directive: d, scope: inside, at: place(d)}
	key := ""
	for _, d := range d.Block {
		switch d.Name {
		case "listen":
			s.listensOn(d)
		case "server_name":
			s.named(d)
		case "ssl_certificate":
			s.secret = gateway.Name(strings.TrimSuffix(path.Base(d.Arg(0)), path.Ext(d.Arg(0))))
			if s.secret == "fullchain" || s.secret == "cert" { // certbot names all files alike, and the folder after the host
				s.secret = gateway.Name(path.Base(path.Dir(d.Arg(0))))
			}
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
		c.Note(s.at, fmt.Sprintf("the gateways need the secret %s", s.secret), fmt.Sprintf("mcp-client secret create tls %s -n %s --cert %s --key KEY --service-account ACCOUNT", s.secret, c.Namespace, key))
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
	return gateway.Name(fmt.Sprintf("https-%d-%s", p.number, strings.ReplaceAll(name, "*", "any")))
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
		for _, name := range s.names {
			c.addListener(gateway.Listener{Name: p.sectionName(name), Hostname: name, Port: p.number, Protocol: "HTTPS", TLS: tls})
		}
	}
}

func (c *conversion) addListener(l gateway.Listener) {
	if !slices.ContainsFunc(c.listeners, func(o gateway.Listener) bool { return o.Name == l.Name }) {
		c.listeners = append(c.listeners, l)
	}
}

// write writes the routes of a server: for its names, and for what no server has a name for.
func (c *conversion) write(s *server) {
	conditions := s.conditions()
	for _, tls := range []bool{false, true} {
		var parents, others []gateway.Parent
		for _, p := range s.ports {
			if p.tls != tls || p.tls && s.secret == "" {
				continue
			}
			for _, name := range cmpNames(s.names, p.tls) {
				parents = append(parents, gateway.Parent{Name: c.Gateway, SectionName: p.sectionName(name)})
			}
			if p.byDefault {
				others = append(others, gateway.Parent{Name: c.Gateway, SectionName: p.sectionName("")})
			}
		}
		scheme := map[bool]string{false: "http", true: "https"}[tls]
		for _, names := range conditions.divided(s.names) {
			r := gateway.Route{Namespace: c.Namespace, Name: c.routeName(names, scheme, s), Parents: parents, Hostnames: names, From: s.at}
			r.Rules = s.rules(request{names[0], scheme}, conditions)
			c.AddRoute(r)
		}
		r := gateway.Route{Namespace: c.Namespace, Name: c.routeName(nil, scheme, s), Parents: others, From: s.at}
		if len(others) > 0 {
			r.Rules = s.rules(request{"", scheme}, conditions)
			c.AddRoute(r)
		}
	}
}

// cmpNames are the names that listeners of a port have: none, where it does not speak TLS.
func cmpNames(names []string, tls bool) []string {
	if !tls && len(names) > 0 {
		return []string{""}
	}
	return names
}

func (c *conversion) routeName(names []string, scheme string, s *server) string {
	name := "default"
	if len(names) > 0 {
		name = strings.TrimPrefix(names[0], "*.")
	}
	if len(s.ports) > 1 || scheme == "https" {
		name += "-" + scheme
	}
	return gateway.Name(name)
}
