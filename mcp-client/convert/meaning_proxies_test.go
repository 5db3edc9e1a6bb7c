package convert_test

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// place is a location of NGINX, with the upstream that it passes to.
type place struct{ modifier, path, to string }

// chosen is the location that NGINX chooses for a path, as its documentation has it: an exact one; or
// the longest prefix, if that says that no expression is tried; or the first expression; or that prefix.
func chosen(places []place, path string) string {
	longest, found := place{}, false
	for _, p := range places {
		switch p.modifier {
		case "=":
			if p.path == path {
				return p.to
			}
		case "", "^~":
			if strings.HasPrefix(path, p.path) && (!found || len(p.path) > len(longest.path)) {
				longest, found = p, true
			}
		}
	}
	if !found || longest.modifier != "^~" {
		for _, p := range places {
			if p.modifier == "~" && regexp.MustCompile(p.path).MatchString(path) {
				return p.to
			}
		}
	}
	if found {
		return longest.to
	}
	return ""
}

// Locations of NGINX are chosen as before.
func TestNGINXKeepsItsMeaning(t *testing.T) {
	t.Parallel()
	random, all := rand.New(rand.NewPCG(5, 6)), requestsOf("a.example.com", "b.example.com", "c.example.org")
	refused := 0
	for range 120 {
		servers := map[string][]place{}
		var config strings.Builder
		for s, names := range []string{"a.example.com", "*.example.com", "_"} {
			fmt.Fprintf(&config, "server {\n  listen 80;\n  server_name %s;\n  proxy_set_header Host $host;\n", names)
			var places []place
			for i := range 1 + random.IntN(5) {
				p := place{pick(random, []string{"", "", "=", "^~", "~"}), pick(random, somePaths), fmt.Sprintf("10.%d.%d.1", s, i)}
				if p.modifier == "~" {
					p.path = pick(random, []string{`\.gif$`, "^/a/", "b", "^/(a|b)$", "^/c|gif"})
				}
				same := func(o place) bool {
					return o.path == p.path && (o.modifier == p.modifier || o.modifier+p.modifier == "^~")
				}
				if slices.ContainsFunc(places, same) {
					continue // NGINX refuses two of the same
				}
				places = append(places, p)
				fmt.Fprintf(&config, "  location %s %s { proxy_pass http://%s; }\n", p.modifier, p.path, p.to)
			}
			config.WriteString("}\n")
			servers[names] = places
		}
		// The first server has what no other has a name for.
		of := map[string][]place{"a.example.com": servers["a.example.com"], "b.example.com": servers["*.example.com"], "c.example.org": servers["a.example.com"]}
		r, after := converted(t, "nginx.conf", config.String())
		for _, q := range all {
			want, got := chosen(of[q.host], q.path), after.answer(80, q)
			if got == "500" && len(r.Lost) > 0 {
				refused++
				continue
			}
			expected := "404"
			switch {
			case redirects(of[q.host], q.path):
				expected = fmt.Sprintf("301  %s %s/", q.host, q.path)
			case want != "":
				expected = fmt.Sprintf("%s %s to %s.default.mesh:80=0", q.host, q.path, strings.ReplaceAll(want, ".", "-"))
			}
			if got != expected {
				t.Fatalf("%v is answered by %s, and not by %s\n%s\n%s", q, got, expected, config.String(), written(t, r))
			}
		}
	}
	require.Less(t, refused, 120*len(all)/20)
}

// redirects reports whether a location is for a path with a slash, which NGINX tells clients of that ask
// without it, unless there is a location without it.
func redirects(places []place, path string) bool {
	if slices.ContainsFunc(places, func(p place) bool { return p.path == path && p.modifier != "~" }) {
		return false
	}
	return slices.ContainsFunc(places, func(p place) bool { return p.path == path+"/" && p.modifier != "~" })
}

// Rules of HAProxy are tried as before: the first that holds counts.
func TestHAProxyKeepsItsMeaning(t *testing.T) {
	t.Parallel()
	random, all := rand.New(rand.NewPCG(7, 8)), requestsOf("a.example.com", "b.example.com", "c.example.org")
	type test struct {
		text string
		is   func(request) bool
	}
	tests := []test{
		{"{ hdr(host) -i a.example.com }", func(q request) bool { return q.host == "a.example.com" }},
		{"{ hdr_end(host) -i .example.com }", func(q request) bool { return strings.HasSuffix(q.host, ".example.com") }},
		{"{ hdr(host) a.example.com c.example.org }", func(q request) bool { return q.host != "b.example.com" }},
		{"{ path /a /b }", func(q request) bool { return q.path == "/a" || q.path == "/b" }},
		{"{ path_beg /a/ }", func(q request) bool { return strings.HasPrefix(q.path, "/a/") }},
		{"{ path_beg /a }", func(q request) bool { return strings.HasPrefix(q.path, "/a") }},
		{"{ path_end .gif b }", func(q request) bool { return strings.HasSuffix(q.path, ".gif") || strings.HasSuffix(q.path, "b") }},
		{"{ path_reg ^/[ab]/ }", func(q request) bool { return regexp.MustCompile("^/[ab]/").MatchString(q.path) }},
		{"{ method PUT }", func(q request) bool { return q.method == "PUT" }},
		{"{ hdr(x) 1 }", func(q request) bool { return q.headers["x"] == "1" }},
		{"{ hdr_beg(y) 2 }", func(q request) bool { return strings.HasPrefix(q.headers["y"], "2") }},
	}
	for range 120 {
		var config, backends strings.Builder
		config.WriteString("defaults\n  mode http\nfrontend web\n  bind :80\n")
		type rule struct{ any [][]test }
		var rules []rule
		for i := range 1 + random.IntN(5) {
			r := rule{}
			var alternatives []string
			for range 1 + random.IntN(2) {
				var together []test
				var texts []string
				for range 1 + random.IntN(2) {
					one := pick(random, tests)
					together, texts = append(together, one), append(texts, one.text)
				}
				r.any, alternatives = append(r.any, together), append(alternatives, strings.Join(texts, " "))
			}
			rules = append(rules, r)
			fmt.Fprintf(&config, "  use_backend b%d if %s\n", i, strings.Join(alternatives, " or "))
			fmt.Fprintf(&backends, "backend b%d\n  server s 10.0.%d.1:80\n", i, i)
		}
		config.WriteString("  default_backend last\nbackend last\n  server s 10.0.99.1:80\n" + backends.String())
		r, after := converted(t, "haproxy.cfg", config.String())
		if len(r.Lost) > 0 {
			require.Contains(t, written(t, r), "cannot be said", "what two tests have in common")
			continue
		}
		for _, q := range all {
			want := "last"
			for i, rule := range slices.Backward(rules) {
				if slices.ContainsFunc(rule.any, func(together []test) bool {
					return !slices.ContainsFunc(together, func(one test) bool { return !one.is(q) })
				}) {
					want = fmt.Sprintf("b%d", i)
				}
			}
			want = fmt.Sprintf("%s %s to %s.default.mesh:80=0", q.host, q.path, want)
			if got := after.answer(80, q); got != want {
				t.Fatalf("%v is answered by %s, and not by %s\n%s\n%s", q, got, want, config.String(), written(t, r))
			}
		}
	}
}

// Ingresses choose the narrowest path, as the documentation of Kubernetes has it.
func TestIngressesKeepTheirMeaning(t *testing.T) {
	t.Parallel()
	random, all := rand.New(rand.NewPCG(9, 10)), requestsOf("a.example.com", "b.example.com")
	for range 100 {
		type entry struct{ path, kind, to string }
		var paths []string
		var entries []entry
		for i := range 1 + random.IntN(6) {
			e := entry{pick(random, somePaths), pick(random, []string{"Exact", "Prefix"}), fmt.Sprintf("to%d", i)}
			if slices.ContainsFunc(entries, func(o entry) bool { return strings.Trim(o.path, "/") == strings.Trim(e.path, "/") && o.kind == e.kind }) {
				continue
			}
			entries = append(entries, e)
			paths = append(paths, fmt.Sprintf("{path: %s, pathType: %s, backend: {service: {name: %s, port: {number: 80}}}}", e.path, e.kind, e.to))
		}
		source := "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: a}\nspec: {defaultBackend: {service: {name: last, port: {number: 80}}}, rules: [{host: a.example.com, http: {paths: [" +
			strings.Join(paths, ", ") + "]}}]}\n"
		r, after := converted(t, "a.yaml", source)
		require.Empty(t, r.Lost, source)
		for _, q := range all {
			best, length := "last", -1
			for _, e := range entries {
				prefix := strings.TrimSuffix(e.path, "/")
				switch {
				case e.kind == "Exact" && e.path == q.path:
					best, length = e.to, 1000
				case e.kind == "Prefix" && len(prefix) > length && (q.path == prefix || strings.HasPrefix(q.path, prefix+"/")):
					best, length = e.to, len(prefix)
				}
			}
			want := fmt.Sprintf("%s %s to %s.default.svc.cluster.local:80=0", q.host, q.path, best)
			if q.host == "b.example.com" {
				want = "404"
			}
			if got := after.answer(80, q); got != want {
				t.Fatalf("%v is answered by %s, and not by %s\n%s\n%s", q, got, want, source, written(t, r))
			}
		}
	}
}
