package ingress

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/pgmesh/pgmesh/mcp-client/convert/gateway"
	"github.com/pgmesh/pgmesh/mcp-client/convert/precedence"
	"github.com/pgmesh/pgmesh/mcp-client/convert/report"
	"github.com/pgmesh/pgmesh/mcp-client/convert/result"
)

// prefix is that of the annotations of the NGINX controller.
const prefix = "nginx.ingress.kubernetes.io/"

func (i *Ingress) annotation(name string) string { return i.Metadata.Annotations[prefix+name] }

// settings are what the annotations of an Ingress say.
type settings struct {
	regex        bool
	rewrite      string
	redirects    bool // to HTTPS, where there is a certificate
	forces       bool // to HTTPS, in any case
	redirectCode int
	root         string
	permanent    *gateway.Redirect
	host         string // what backends are asked for
	cors         *gateway.CORS
	secure       bool // backends speak TLS
	closed       bool // nobody may be let in, since it cannot be said who may
}

// guards are annotations that may refuse requests.
var guards = []string{
	"auth-type", "auth-secret", "auth-url", "auth-tls-secret", "auth-tls-verify-client", "whitelist-source-range", "allowlist-source-range", "denylist-source-range",
	"configuration-snippet", "server-snippet", "enable-modsecurity", "modsecurity-snippet", "enable-global-auth", "satisfy",
}

// told are annotations that are read with another, or elsewhere.
var told = []string{
	"canary", "canary-weight", "canary-weight-total", "canary-by-header", "canary-by-header-value", "canary-by-header-pattern", "cors-allow-methods", "cors-allow-headers",
	"cors-allow-credentials", "cors-max-age", "cors-expose-headers", "cors-allow-origin", "permanent-redirect-code", "temporal-redirect-code", "auth-realm",
}

// settings reads the annotations. One that is not understood is told of.
func (c *conversion) settings(i *Ingress) *settings {
	s := &settings{redirects: strings.Contains(i.class(), "nginx") && i.annotation("ssl-redirect") != "false", redirectCode: 308}
	for _, key := range slices.Sorted(maps.Keys(i.Metadata.Annotations)) {
		value, at := i.Metadata.Annotations[key], i.Place.In("metadata.annotations[%s]", key)
		name, ofNginx := strings.CutPrefix(key, prefix)
		switch {
		case key == "kubernetes.io/ingress.class" || key == "kubectl.kubernetes.io/last-applied-configuration" || slices.Contains(told, name) && ofNginx:
		case !ofNginx:
			c.Lose(at, "the annotation is not understood", "if it matters to requests, say it by hand")
		case slices.Contains(guards, name):
			c.Lose(at, "a route cannot say who may call: all requests of the Ingress are answered with 500", "remove the annotation, convert again, and write an AuthorizationPolicy or a RequestAuthentication")
			s.closed = true
		case !s.read(i, name, value):
			c.Lose(at, "the annotation has no counterpart", "if it matters to requests, say it by hand")
		}
	}
	return s
}

// read reads an annotation of the NGINX controller, and reports whether it is understood.
func (s *settings) read(i *Ingress, name, value string) bool {
	is := value == "true"
	switch name {
	case "ssl-redirect":
		s.redirects = is
	case "force-ssl-redirect":
		s.forces = is
	case "use-regex":
		s.regex = s.regex || is
	case "rewrite-target":
		s.rewrite, s.regex = value, s.regex || strings.Contains(value, "$")
	case "app-root":
		s.root = value
	case "upstream-vhost":
		s.host = value
	case "permanent-redirect":
		s.permanent = target(value, i.annotation("permanent-redirect-code"), 301)
		return s.permanent != nil
	case "temporal-redirect":
		s.permanent = target(value, i.annotation("temporal-redirect-code"), 302)
		return s.permanent != nil
	case "enable-cors":
		if is {
			s.cors = i.cors()
		}
	case "backend-protocol":
		s.secure = value == "HTTPS" || value == "GRPCS"
		return s.secure || value == "HTTP" || value == "GRPC"
	default:
		return false
	}
	return true
}

// target reads where a redirection leads.
func target(url, code string, otherwise int) *gateway.Redirect {
	out := &gateway.Redirect{StatusCode: otherwise}
	if n, err := strconv.Atoi(code); err == nil {
		out.StatusCode = n
	}
	scheme, rest, found := strings.Cut(url, "://")
	if !found || strings.Contains(url, "$") {
		return nil
	}
	out.Scheme = scheme
	host, path, _ := strings.Cut(rest, "/")
	out.Path = gateway.FullPath("/" + path)
	host, port, found := strings.Cut(host, ":")
	if out.Hostname = host; found {
		out.Port, _ = strconv.Atoi(port)
	}
	return out
}

// cors are what the annotations say, or what the controller says where they do not.
func (i *Ingress) cors() *gateway.CORS {
	list := func(name, otherwise string) (out []string) {
		text := i.annotation(name)
		if text == "" {
			text = otherwise
		}
		for item := range strings.SplitSeq(text, ",") {
			if item = strings.TrimSpace(item); item != "" {
				out = append(out, item)
			}
		}
		return out
	}
	age, err := strconv.Atoi(i.annotation("cors-max-age"))
	if err != nil {
		age = 1728000
	}
	return &gateway.CORS{
		AllowOrigins: list("cors-allow-origin", "*"), AllowCredentials: i.annotation("cors-allow-credentials") != "false", MaxAge: age,
		AllowMethods:  list("cors-allow-methods", "GET,PUT,POST,DELETE,PATCH,OPTIONS"),
		AllowHeaders:  list("cors-allow-headers", "DNT,Keep-Alive,User-Agent,X-Requested-With,If-Modified-Since,Cache-Control,Content-Type,Range,Authorization"),
		ExposeHeaders: list("cors-expose-headers", ""),
	}
}

// action is what becomes of the requests of a path; nil if that cannot be said.
func (c *conversion) action(i *Ingress, p Path, s *settings, at report.Place) *gateway.Action {
	if s.closed {
		return nil
	}
	if s.permanent != nil {
		return redirect(s.permanent)
	}
	to, ok := c.backend(i, p.Backend, at)
	if !ok {
		return nil
	}
	if s.secure {
		c.secure(i, to, at)
	}
	a := &gateway.Action{Backends: []gateway.Backend{to}}
	rewrite := &gateway.Rewrite{Hostname: s.host}
	if s.rewrite != "" {
		if rewrite.Path, ok = s.rewritten(p); !ok {
			c.Lose(at, fmt.Sprintf("%s cannot be rewritten to %s by a route: its requests are answered with 500", p.Path, s.rewrite), `prefixes can, such as /shop(/|$)(.*) to /$2`)
			return nil
		}
	}
	if *rewrite != (gateway.Rewrite{}) {
		a.Filters = append(a.Filters, gateway.Filter{Type: "URLRewrite", Rewrite: rewrite})
	}
	if s.cors != nil {
		a.Filters = append(a.Filters, gateway.Filter{Type: "CORS", CORS: s.cors})
	}
	return a
}

// rewritten is what a path becomes: all of it without a group, and its prefix with the usual one.
func (s *settings) rewritten(p Path) (*gateway.Path, bool) {
	if !strings.Contains(s.rewrite, "$") {
		return gateway.FullPath(s.rewrite), true
	}
	with, is := strings.CutSuffix(s.rewrite, "/$2")
	if _, usual := segments(p.Path); is && usual && strings.HasSuffix(p.Path, "(.*)") && !strings.Contains(with, "$") {
		if with == "" {
			with = "/"
		}
		return gateway.PrefixPath(with), true
	}
	return nil, false
}

// secure has clients of a service speak TLS to it, without looking at its certificate, as the NGINX
// controller does.
func (c *conversion) secure(i *Ingress, to gateway.Backend, at report.Place) {
	c.Note(at, fmt.Sprintf("the certificate of %s is not checked, as before", to.Name), "write a BackendTLSPolicy in the place of the DestinationRule, to have it checked")
	c.AddOnce("DestinationRule", i.Metadata.Namespace, result.Name(to.Name+"-tls"), gateway.Unchecked(to.Name+"."+i.Metadata.Namespace+".svc.cluster.local", ""), at)
}

// ofCanaries are the rules that canaries of the path add, before it. One by weight joins the backends
// of the path.
func (c *conversion) ofCanaries(i *Ingress, h host, p Path, path precedence.Path, then *gateway.Action) (out []gateway.Rule) {
	key := i.Metadata.Namespace + "/" + h.name
	if then == nil || len(then.Backends) == 0 {
		return nil
	}
	for _, canary := range slices.Clone(c.canaries[key]) {
		same, is := canary.path(h.name, p.Path)
		if !is {
			continue
		}
		c.canaries[key] = slices.DeleteFunc(c.canaries[key], func(k *Ingress) bool { return k == canary })
		if to, ok := c.backend(canary, same.Backend, canary.Place); ok {
			out = append(out, c.canary(canary, to, path, then)...)
		}
	}
	if len(c.canaries[key]) == 0 {
		delete(c.canaries, key)
	}
	return out
}

// path is that of a host, if the Ingress has it.
func (i *Ingress) path(host, path string) (Path, bool) {
	for _, h := range i.hosts() {
		for _, p := range h.paths {
			if h.name == host && p.Path == path {
				return p, true
			}
		}
	}
	return Path{}, false
}

// canary shares requests with a canary: those with a header, and then a part of the rest.
func (c *conversion) canary(i *Ingress, to gateway.Backend, path precedence.Path, then *gateway.Action) (out []gateway.Rule) {
	if i.annotation("canary-by-cookie") != "" {
		c.Lose(i.Place.In("metadata.annotations[%scanary-by-cookie]", prefix), "a route knows no cookies: they do not choose the canary", "")
	}
	if header := i.annotation("canary-by-header"); header != "" {
		chosen := *then
		chosen.Backends = []gateway.Backend{to}
		want := precedence.Value{Name: header, Text: "always"}
		if value := i.annotation("canary-by-header-value"); value != "" {
			want.Text = value
		} else if pattern := i.annotation("canary-by-header-pattern"); pattern != "" {
			want.Text, want.Regex = ".*"+pattern+".*", true
		} else {
			never := *then
			never.Backends = slices.Clone(then.Backends[:1])
			out = append(out, gateway.Rule{
				Match: precedence.Match{Path: path, Headers: []precedence.Value{{Name: header, Text: "never"}}}, Then: &never, From: i.Place,
			})
		}
		out = append(out, gateway.Rule{Match: precedence.Match{Path: path, Headers: []precedence.Value{want}}, Then: &chosen, From: i.Place})
	}
	total := 100
	if n, err := strconv.Atoi(i.annotation("canary-weight-total")); err == nil && n > 0 {
		total = n
	}
	if weight, err := strconv.Atoi(i.annotation("canary-weight")); err == nil && weight > 0 {
		rest, share := max(0, total-weight), weight
		then.Backends[0].Weight, to.Weight = &rest, &share
		then.Backends = append(then.Backends, to)
	}
	return out
}
