// Package ingress converts Ingresses of Kubernetes.
package ingress

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pgmesh/pgmesh/mcp-client/convert/gateway"
	"github.com/pgmesh/pgmesh/mcp-client/convert/precedence"
	"github.com/pgmesh/pgmesh/mcp-client/convert/report"
	"github.com/pgmesh/pgmesh/mcp-client/convert/result"
)

// Options say how to convert.
type Options struct {
	Class   string // of Gateways
	Gateway string // the name of the Gateway; that of the Ingresses' class if it is empty
}

// Ingress is an Ingress as it is written.
type Ingress struct {
	APIVersion string   `yaml:"apiVersion"`
	Kind       string   `yaml:"kind"`
	Metadata   Metadata `yaml:"metadata"`
	Spec       Spec     `yaml:"spec"`
	Status     any      `yaml:"status"`

	Place report.Place `yaml:"-"`
}

// Metadata is what matters of metadata.
type Metadata struct {
	Name        string            `yaml:"name"`
	Namespace   string            `yaml:"namespace"`
	Annotations map[string]string `yaml:"annotations"`
	Others      map[string]any    `yaml:",inline"`
}

// Spec is that of an Ingress.
type Spec struct {
	Class          string   `yaml:"ingressClassName"`
	DefaultBackend *Backend `yaml:"defaultBackend"`
	TLS            []TLS    `yaml:"tls"`
	Rules          []Rule   `yaml:"rules"`
}

// TLS has the secret of some hosts.
type TLS struct {
	Hosts  []string `yaml:"hosts"`
	Secret string   `yaml:"secretName"`
}

// Rule has the paths of a host.
type Rule struct {
	Host string `yaml:"host"`
	HTTP struct {
		Paths []Path `yaml:"paths"`
	} `yaml:"http"`
}

// Path is a path, and where its requests go.
type Path struct {
	Path    string  `yaml:"path"`
	Type    string  `yaml:"pathType"`
	Backend Backend `yaml:"backend"`
}

// Backend is a port of a service.
type Backend struct {
	Service struct {
		Name string `yaml:"name"`
		Port struct {
			Name   string `yaml:"name"`
			Number int    `yaml:"number"`
		} `yaml:"port"`
	} `yaml:"service"`
	Resource map[string]any `yaml:"resource"`
}

// Service is what matters of a Service of Kubernetes: the numbers of its ports.
type Service struct {
	Metadata Metadata `yaml:"metadata"`
	Spec     struct {
		Ports []struct {
			Name string `yaml:"name"`
			Port int    `yaml:"port"`
		} `yaml:"ports"`
	} `yaml:"spec"`
}

type conversion struct {
	Options
	*gateway.Set

	ports    map[string]int // by namespace/name/port
	gateways map[string]*listening
	canaries map[string][]*Ingress // by namespace and host
}

// listening is a Gateway on its way: Ingresses of one class and namespace share one.
type listening struct {
	namespace, name string
	listeners       []gateway.Listener
	from            report.Place
}

// Convert converts Ingresses, with what Services say of the ports that they name.
func Convert(ingresses []*Ingress, services []*Service, o Options, out *gateway.Set) {
	c := &conversion{Options: o, Set: out, ports: map[string]int{}, gateways: map[string]*listening{}, canaries: map[string][]*Ingress{}}
	for _, s := range services {
		for _, p := range s.Spec.Ports {
			c.ports[s.Metadata.Namespace+"/"+s.Metadata.Name+"/"+p.Name] = p.Port
		}
	}
	for _, i := range ingresses {
		if i.annotation("canary") == "true" {
			for _, r := range i.Spec.Rules {
				c.canaries[i.Metadata.Namespace+"/"+r.Host] = append(c.canaries[i.Metadata.Namespace+"/"+r.Host], i)
			}
		}
	}
	for _, i := range ingresses {
		if i.annotation("canary") != "true" {
			c.ingress(i)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(c.gateways)) {
		g := c.gateways[key]
		c.Add("Gateway", g.namespace, g.name, gateway.Gateway{Class: c.Class, Listeners: g.listeners}, g.from)
	}
	for _, key := range slices.Sorted(maps.Keys(c.canaries)) {
		for _, i := range c.canaries[key] {
			c.Lose(i.Place, "it is a canary, and no other Ingress has this host and path: it is left out", "")
		}
	}
}

// class is the class of an Ingress, as it is written in one of two places.
func (i *Ingress) class() string {
	return cmp.Or(i.Spec.Class, i.Metadata.Annotations["kubernetes.io/ingress.class"])
}

// host is one host of an Ingress.
type host struct {
	name  string
	paths []Path
	at    report.Place
}

func (c *conversion) ingress(i *Ingress) {
	s := c.settings(i)
	hosts := i.hosts()
	if len(hosts) == 0 && i.Spec.DefaultBackend != nil {
		hosts = []host{{at: i.Place.In("spec.defaultBackend")}}
	}
	for _, h := range hosts {
		if strings.HasPrefix(h.name, "*.") {
			c.Note(h.at, fmt.Sprintf("a route for %s is for names of several labels, too, and the Ingress for those of one", h.name), "")
		}
		c.host(i, h, s)
	}
}

// hosts are those of an Ingress, each once, with all of its paths.
func (i *Ingress) hosts() (out []host) {
	for n, r := range i.Spec.Rules {
		name := strings.ToLower(r.Host)
		at := slices.IndexFunc(out, func(h host) bool { return h.name == name })
		if at < 0 {
			out = append(out, host{name: name, at: i.Place.In("spec.rules[%d]", n)})
			at = len(out) - 1
		}
		out[at].paths = append(out[at].paths, r.HTTP.Paths...)
	}
	return out
}

// host writes the route of a host, and the listeners that it is for.
func (c *conversion) host(i *Ingress, h host, s *settings) {
	name := i.Metadata.Name
	if len(i.Spec.Rules) > 1 || h.name != "" {
		name = result.Name(i.Metadata.Name + "-" + h.name)
	}
	plain, secure := c.parents(i, h)
	r := gateway.Route{Namespace: i.Metadata.Namespace, Name: name, Parents: append(plain, secure...), From: h.at}
	if h.name != "" {
		r.Hostnames = []string{h.name}
	}
	if len(secure) > 0 && s.redirects || s.forces {
		to := r
		to.Name, to.Parents = r.Name+"-to-https", plain
		to.Rules = []gateway.Rule{{From: h.at, Then: redirect(&gateway.Redirect{Scheme: "https", StatusCode: s.redirectCode})}}
		c.AddRoute(to)
		r.Parents = secure
	}
	r.Rules = c.rules(i, h, s)
	c.AddRoute(r)
}

func redirect(to *gateway.Redirect) *gateway.Action {
	return &gateway.Action{Filters: []gateway.Filter{{Type: "RequestRedirect", Redirect: to}}}
}

// parents are the listeners for a host: one of HTTP, and one of HTTPS if it has a certificate.
func (c *conversion) parents(i *Ingress, h host) (plain, secure []gateway.Parent) {
	name := cmp.Or(c.Gateway, result.Name(cmp.Or(i.class(), "ingress")))
	key := i.Metadata.Namespace + "/" + name
	g := c.gateways[key]
	if g == nil {
		g = &listening{namespace: i.Metadata.Namespace, name: name, from: i.Place}
		c.gateways[key] = g
	}
	label := result.Name(strings.TrimPrefix(h.name, "*."))
	if strings.HasPrefix(h.name, "*.") {
		label = "any-" + label
	}
	suffix := ""
	if h.name != "" {
		suffix = "-" + label
	}
	g.listen(gateway.Listener{Name: "http" + suffix, Hostname: h.name, Port: 80, Protocol: "HTTP"})
	plain = []gateway.Parent{{Name: name, SectionName: "http" + suffix}}
	if secret := i.secret(h.name); secret != "" {
		g.listen(gateway.Listener{
			Name: "https" + suffix, Hostname: h.name, Port: 443, Protocol: "HTTPS",
			TLS: &gateway.TLS{Mode: "Terminate", Certificates: []gateway.Ref{{Name: secret}}},
		})
		secure = []gateway.Parent{{Name: name, SectionName: "https" + suffix}}
		c.Note(i.Place.In("spec.tls"), fmt.Sprintf("the gateways need the secret %s of %s", secret, i.Metadata.Namespace), fmt.Sprintf("mcp-client secret create tls %s -n %s --cert CERT --key KEY --service-account ACCOUNT", secret, i.Metadata.Namespace))
	}
	return plain, secure
}

// listen adds a listener that is not there yet.
func (g *listening) listen(l gateway.Listener) {
	if !slices.ContainsFunc(g.listeners, func(other gateway.Listener) bool { return other.Name == l.Name }) {
		g.listeners = append(g.listeners, l)
	}
}

// secret is that of a host; "" if it has none.
func (i *Ingress) secret(host string) string {
	for _, t := range i.Spec.TLS {
		for _, name := range t.Hosts {
			name = strings.ToLower(name)
			_, parent, _ := strings.Cut(host, ".")
			if name == host || strings.HasPrefix(name, "*.") && name[2:] == parent {
				return t.Secret
			}
		}
		if len(t.Hosts) == 0 && host == "" {
			return t.Secret
		}
	}
	return ""
}

// rules are those of a host. An Ingress is as particular about paths as the Gateway API, so their
// order says nothing but for equal ones.
func (c *conversion) rules(i *Ingress, h host, s *settings) (out []gateway.Rule) {
	if s.root != "" {
		out = append(out, gateway.Rule{
			Match: precedence.Match{Path: precedence.Path{Form: precedence.Exact, Text: "/"}}, From: h.at,
			Then: redirect(&gateway.Redirect{StatusCode: 302, Path: gateway.FullPath(s.root)}),
		})
	}
	paths := slices.Clone(h.paths)
	if i.Spec.DefaultBackend != nil && !slices.ContainsFunc(paths, func(p Path) bool { return p.Path == "/" && p.Type != "Exact" || p.Path == "" }) {
		paths = append(paths, Path{Path: "/", Type: "Prefix", Backend: *i.Spec.DefaultBackend})
	}
	slices.SortStableFunc(paths, byLength)
	for n, p := range paths {
		at := h.at.In("http.paths[%d]", n)
		at.Path = strings.Replace(at.Path, fmt.Sprintf("paths[%d]", n), "paths "+p.Path, 1)
		path := c.path(p, s, at)
		then := c.action(i, p, s, at)
		out = append(out, c.ofCanaries(i, h, p, path, then)...)
		out = append(out, gateway.Rule{Match: precedence.Match{Path: path}, Then: then, From: at})
	}
	return out
}

// byLength sorts the narrower path first.
func byLength(a, b Path) int {
	exact := map[bool]int{true: 0, false: 1}
	return cmp.Or(cmp.Compare(exact[a.Type == "Exact"], exact[b.Type == "Exact"]), cmp.Compare(len(strings.TrimSuffix(b.Path, "/")), len(strings.TrimSuffix(a.Path, "/"))))
}

func (c *conversion) path(p Path, s *settings, at report.Place) precedence.Path {
	switch {
	case s.regex:
		if prefix, is := segments(p.Path); is {
			return precedence.Path{Form: precedence.Segments, Text: prefix}
		}
		return precedence.Path{Form: precedence.Regex, Text: "(?i)" + p.Path + ".*"}
	case p.Type == "Exact":
		return precedence.Path{Form: precedence.Exact, Text: p.Path}
	case p.Type == "ImplementationSpecific" || p.Type == "":
		c.Note(at, "which paths are matched depends on the controller: it is taken for a prefix of whole segments", "write pathType: Prefix")
	}
	return precedence.Path{Form: precedence.Segments, Text: cmp.Or(p.Path, "/")}
}

// segments reads the usual expression for a prefix of whole segments that is cut off.
func segments(path string) (prefix string, is bool) {
	for _, tail := range []string{`(/|$)(.*)`, `(/|$)`} {
		if prefix, is := strings.CutSuffix(path, tail); is && !strings.ContainsAny(prefix, `\.+*?()|[]{}^$`) {
			return cmp.Or(prefix, "/"), true
		}
	}
	return "", false
}

// backend converts a backend, and reports whether it can be said.
func (c *conversion) backend(i *Ingress, b Backend, at report.Place) (gateway.Backend, bool) {
	service := b.Service
	switch {
	case b.Resource != nil:
		c.Lose(at, "a backend that is no Service is not known: its requests are answered with 500", "")
		return gateway.Backend{}, false
	case service.Port.Number != 0:
		return gateway.Backend{Name: service.Name, Port: service.Port.Number}, true
	}
	number, known := c.ports[i.Metadata.Namespace+"/"+service.Name+"/"+service.Port.Name]
	if !known {
		c.Lose(at, fmt.Sprintf("which number the port %s of the Service %s has is not known: its requests are answered with 500", service.Port.Name, service.Name),
			"convert the Service with it, or write the number")
		return gateway.Backend{}, false
	}
	return gateway.Backend{Name: service.Name, Port: number}, true
}
