package haproxy

import (
	"fmt"
	"net"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/pgmesh/pgmesh/mcp-client/convert/gateway"
	"github.com/pgmesh/pgmesh/mcp-client/convert/haproxycfg"
	"github.com/pgmesh/pgmesh/mcp-client/convert/report"
	"github.com/pgmesh/pgmesh/mcp-client/convert/result"
)

// frontend is a frontend on its way.
type frontend struct {
	*conversion

	section *haproxycfg.Section
	mode    string
	at      report.Place
	acls    acls
	binds   []bind
	early   []rule // what answers before a backend is chosen
	late    []rule // which backend is chosen
	byAll   *backend
	filters []gateway.Filter
	closed  bool // nobody may be let in, since it cannot be said who may
}

// bind is a port that a frontend listens on.
type bind struct {
	port    int
	tls     bool
	section string // of the listener
}

// rule is what becomes of requests that are like one of its terms; they are refused if that is nil.
type rule struct {
	terms []term
	then  *gateway.Action
	to    *backend
	at    report.Place
}

func (c *conversion) frontend(s *haproxycfg.Section) {
	f := &frontend{conversion: c, section: s, mode: c.mode, acls: acls{}, at: report.Place{File: s.File, Line: s.Line, Kind: s.Kind, Name: s.Name()}}
	if s.Kind == "listen" {
		f.byAll = c.backends[s.Name()]
	}
	for _, l := range s.From {
		switch l.Word(0) {
		case "mode":
			f.mode = l.Word(1)
		case "acl":
			f.acls.declare(l, c.WholeSegments)
		}
	}
	for _, l := range s.From {
		f.line(l)
	}
	f.listen()
	if f.mode == "tcp" {
		f.connections()
		return
	}
	f.write()
}

// line reads a line other than acl and mode, which are read before.
func (f *frontend) line(l haproxycfg.Line) {
	switch l.Word(0) {
	case "mode", "acl":
	case "bind":
		f.bind(l)
	case "use_backend":
		f.use(l)
	case "default_backend":
		f.byAll = f.backendOf(l.Word(1), l)
	case "redirect":
		f.redirect(l, l.Words[1:])
	case "http-request", "http-response":
		f.request(l)
	case "server", "balance", "default-server", "cookie", "http-check", "tcp-check", "hash-type":
		if f.section.Kind != "listen" {
			f.other(l)
		}
	case "block":
		f.close(l)
	default:
		f.other(l)
	}
}

func (f *frontend) bind(l haproxycfg.Line) {
	for address := range strings.SplitSeq(l.Word(1), ",") {
		host, number, err := net.SplitHostPort(address)
		port, wrong := strconv.Atoi(number)
		if err != nil || wrong != nil || port < 1 || port > 65535 {
			f.Lose(place(l), "a listener is at one port: "+address+" is left out", "")
			continue
		}
		if host = strings.TrimPrefix(strings.TrimPrefix(host, "ipv4@"), "ipv6@"); host != "" && host != "*" && host != "::" && host != "0.0.0.0" {
			f.Lose(place(l), fmt.Sprintf("the listener is at all addresses, and not at %s alone", host), "write the address into spec.addresses of the Gateway")
		}
		b := bind{port: port, tls: slices.Contains(l.Words, "ssl")}
		if slices.ContainsFunc(f.binds, func(o bind) bool { return o.port == port }) {
			continue
		}
		f.certified(l, &b)
	}
}

// certified adds a port, with the certificate of its listener.
func (f *frontend) certified(l haproxycfg.Line, b *bind) {
	var secrets []string
	for i, word := range l.Words {
		switch {
		case word == "crt" && i+1 < len(l.Words):
			file := l.Words[i+1]
			secrets = append(secrets, result.Name(strings.TrimSuffix(path.Base(file), path.Ext(file))))
		case word == "verify" && l.Word(i+1) != "none", word == "ca-file", word == "crt-list":
			f.Lose(place(l), word+" is not taken over", "write it into tls of the Gateway")
			f.closed = f.closed || word != "crt-list"
		case strings.HasPrefix(word, "ssl-") || word == "ciphers" || word == "ciphersuites" || word == "curves" || word == "ecdhe":
			f.Lose(place(l), word+": listeners have no such field", "write it into tlsDefaults of the MeshConfig, for all listeners")
		case word == "accept-proxy":
			f.Lose(place(l), "listeners have no PROXY protocol", "")
		}
	}
	b.section = fmt.Sprintf("%s-%d", map[bool]string{false: "http", true: "https"}[b.tls], b.port)
	listener := gateway.Listener{Name: b.section, Port: b.port, Protocol: "HTTP"}
	switch {
	case f.mode == "tcp":
		b.section = fmt.Sprintf("tcp-%d", b.port)
		listener.Name, listener.Protocol = b.section, "TCP"
	case b.tls && len(secrets) == 0:
		f.Lose(place(l), fmt.Sprintf("which certificate port %d has is not known: it is left out", b.port), "name it with crt")
		return
	case b.tls:
		if len(secrets) > 1 {
			f.Lose(place(l), "a listener has one certificate: only the first is taken over", "write a listener with a hostname for each")
		}
		listener.Protocol, listener.TLS = "HTTPS", &gateway.TLS{Mode: "Terminate", Certificates: []gateway.Ref{{Name: secrets[0]}}}
		f.Note(place(l), "the gateways need the secret "+secrets[0], fmt.Sprintf("mcp-client secret create tls %s -n %s --cert CERT --key KEY --service-account ACCOUNT", secrets[0], f.Namespace))
	}
	f.binds = append(f.binds, *b)
	f.listeners = append(f.listeners, listener)
}

// listen has listeners of mode tcp look at the names of TLS, if the frontend does.
func (f *frontend) listen() {
	if f.mode != "tcp" || !slices.ContainsFunc(f.late, func(r rule) bool { return slices.ContainsFunc(r.terms, func(t term) bool { return t.name != "" }) }) {
		return
	}
	for i := range f.listeners {
		for _, b := range f.binds {
			if f.listeners[i].Name == b.section {
				f.listeners[i].Protocol, f.listeners[i].TLS = "TLS", &gateway.TLS{Mode: "Passthrough"}
			}
		}
	}
}

// backendOf is a backend by its name; nil if there is none.
func (f *frontend) backendOf(name string, l haproxycfg.Line) *backend {
	b := f.backends[name]
	if b == nil {
		f.Lose(place(l), fmt.Sprintf("there is no backend %s: its requests are answered with 500", name), "backends are chosen by names without variables")
		return &backend{done: true}
	}
	return b
}

func (f *frontend) use(l haproxycfg.Line) {
	terms, why := f.acls.condition(l.Words[min(2, len(l.Words)):], f.WholeSegments)
	if why != "" {
		f.Lose(place(l), why+": it is left out, and its requests are answered by the rules after it", "")
		return
	}
	f.late = append(f.late, rule{terms: terms, to: f.backendOf(l.Word(1), l), at: place(l)})
}

// close has the frontend refuse all requests, since it is not known which are to be.
func (f *frontend) close(l haproxycfg.Line) {
	f.Lose(place(l), "a route cannot say who may call: all requests of "+f.section.Kind+" "+f.section.Name()+" are answered with 500",
		"remove it, convert again, and write an AuthorizationPolicy or a RequestAuthentication")
	f.closed = true
}

// request reads a line of http-request or http-response.
func (f *frontend) request(l haproxycfg.Line) {
	words := l.Words[1:]
	at := slices.IndexFunc(words, func(w string) bool { return w == "if" || w == "unless" })
	if at < 0 {
		at = len(words)
	}
	switch what := l.Word(1); what {
	case "redirect":
		f.redirect(l, words[1:])
	case "deny", "tarpit", "reject", "silent-drop", "auth", "return":
		if terms, why := f.acls.condition(words[at:], f.WholeSegments); why == "" && l.Word(0) == "http-request" {
			f.Lose(place(l), "a route does not answer by itself: these requests are answered with 500", "")
			f.early = append(f.early, rule{terms: terms, at: place(l)})
			return
		}
		f.close(l)
	case "set-header", "add-header", "del-header":
		if at < len(words) {
			f.Lose(place(l), "a route changes headers of all requests of a rule: this is left out", "write it into the rules that it is for")
			return
		}
		f.filters = f.changed(f.filters, l)
	default:
		f.other(l)
	}
}

// redirect reads a redirection.
func (f *frontend) redirect(l haproxycfg.Line, words []string) {
	to := &gateway.Redirect{StatusCode: 302}
	at := slices.IndexFunc(words, func(w string) bool { return w == "if" || w == "unless" })
	if at < 0 {
		at = len(words)
	}
	terms, why := f.acls.condition(words[at:], f.WholeSegments)
	for i := 0; i+1 < at && why == ""; i += 2 {
		why = redirection(to, words[i], words[i+1])
	}
	if why == "" && to.Path != nil && to.Path.Prefix != nil && slices.ContainsFunc(terms, func(t term) bool { return !t.match.Path.Any() }) {
		why = "a route puts a prefix before all paths alone"
	}
	if why != "" {
		f.Lose(place(l), why+": it is left out, and its requests are answered by the rules after it", "")
		return
	}
	f.early = append(f.early, rule{terms: terms, then: &gateway.Action{Filters: []gateway.Filter{{Type: "RequestRedirect", Redirect: to}}}, at: place(l)})
}

// redirection reads a part of a redirection, and returns why it cannot be said.
func redirection(to *gateway.Redirect, what, value string) string {
	if strings.Contains(value, "%[") {
		return "a route redirects to fixed places"
	}
	switch what {
	case "scheme":
		to.Scheme = value
	case "code":
		to.StatusCode, _ = strconv.Atoi(value)
	case "location", "prefix":
		scheme, rest, found := strings.Cut(value, "://")
		if found {
			to.Scheme = scheme
			host, after, slash := strings.Cut(rest, "/")
			rest = ""
			if slash {
				rest = "/" + after
			}
			name, port, _ := strings.Cut(host, ":")
			to.Hostname = strings.ToLower(name)
			to.Port, _ = strconv.Atoi(port)
		} else {
			rest = value
		}
		switch {
		case what == "location":
			if rest == "" {
				rest = "/"
			}
			to.Path = gateway.FullPath(rest)
		case strings.Trim(rest, "/") != "":
			to.Path = gateway.PrefixPath(strings.TrimRight(rest, "/"))
		}
	default:
		return what + " of a redirection is not understood"
	}
	return ""
}
