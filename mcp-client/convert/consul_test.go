package convert_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/convert"
)

// The intentions of a test, as Consul writes them.
type (
	intentionEntry struct {
		Kind, Name string
		Sources    []intention
	}
	intention struct {
		Name        string
		Action      string       `json:",omitempty"`
		Permissions []permission `json:",omitempty"`
	}
	permission struct {
		Action string
		HTTP   struct {
			PathExact  string      `json:",omitempty"`
			PathPrefix string      `json:",omitempty"`
			Methods    []string    `json:",omitempty"`
			Header     []condition `json:",omitempty"`
		}
		beyond bool // it has what no policy can say, so nobody knows whether it is met
	}
	condition struct {
		Name    string
		Exact   string `json:",omitempty"`
		Suffix  string `json:",omitempty"`
		Regex   string `json:",omitempty"`
		Present bool   `json:",omitempty"`
		Invert  bool   `json:",omitempty"`
	}
)

func among[T any](r *rand.Rand, of ...T) T { return pick(r, of) }

// draw is a permission of any form.
func draw(r *rand.Rand) (p permission) {
	p.Action = among(r, "allow", "deny")
	switch among(r, 0, 1, 2) {
	case 0:
		p.HTTP.PathExact = among(r, "/", "/a", "/a/b")
	case 1:
		p.HTTP.PathPrefix = among(r, "/", "/a", "/b")
	}
	p.HTTP.Methods = among(r, nil, []string{"GET"}, []string{"GET", "PUT"})
	switch c := (condition{Name: "x-a", Invert: among(r, true, false)}); among(r, 0, 1, 2, 3, 4) {
	case 0:
		c.Exact = "yes"
		p.HTTP.Header = []condition{c}
	case 1:
		c.Present = true
		p.HTTP.Header = []condition{c}
	case 2:
		c.Suffix = "s"
		p.HTTP.Header = []condition{c}
	case 3:
		c.Regex = "y.*"
		p.HTTP.Header, p.beyond = []condition{c}, true
	}
	return p
}

// meets is what Consul's Envoys decide about a permission.
func (p *permission) meets(q asked) bool {
	h := p.HTTP
	is := (h.PathExact == "" || q.path == h.PathExact) && strings.HasPrefix(q.path, h.PathPrefix) &&
		(len(h.Methods) == 0 || strings.Contains(strings.Join(h.Methods, " "), q.method))
	for _, c := range h.Header {
		value, there := q.headers[c.Name]
		met := there && (c.Present || c.Exact != "" && value == c.Exact || c.Suffix != "" && strings.HasSuffix(value, c.Suffix) || c.Regex != "" && strings.HasPrefix(value, "y"))
		is = is && met != c.Invert
	}
	return is
}

// decides is what Consul decides: the most exact destination counts first, then the most exact source, and of its
// permissions the first that is met.
func decides(entries []intentionEntry, otherwise bool, from, to string, q asked) (yes, known bool) {
	for _, destination := range []string{to, "*"} {
		for _, source := range []string{from, "*"} {
			for _, e := range entries {
				for _, s := range e.Sources {
					if e.Name != destination || s.Name != source {
						continue
					}
					known := true
					for _, p := range s.Permissions {
						known = known && !p.beyond
						if p.meets(q) {
							return p.Action == "allow", known
						}
					}
					if len(s.Permissions) > 0 {
						return otherwise, known
					}
					return s.Action == "allow", true
				}
			}
		}
	}
	return otherwise, true
}

// Whatever intentions say, the policies that they become let in nobody whom Consul refuses, and, where all of it can be
// said, everybody whom it lets in.
func TestIntentionsMeanWhatTheyMeant(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	letIn, refused := 0, 0
	for range 150 {
		otherwise := among(r, "allow", "deny")
		entries := []intentionEntry{{Kind: "service-intentions", Name: "web"}, {Kind: "service-intentions", Name: "*"}}
		var file strings.Builder
		fmt.Fprintf(&file, `{"acl": {"default_policy": %q}} {"Kind": "service-defaults", "Name": "web", "Protocol": "http"} {"Kind": "service-defaults", "Name": "db", "Protocol": "http"}`, otherwise)
		for i := range entries {
			for _, name := range []string{"a", "b", "*"} {
				s := intention{Name: name, Action: among(r, "allow", "deny")}
				if i == 0 && among(r, true, false) {
					s.Action = ""
					for range among(r, 1, 2, 3) {
						s.Permissions = append(s.Permissions, draw(r))
					}
				}
				if among(r, true, true, false) {
					entries[i].Sources = append(entries[i].Sources, s)
				}
			}
			if len(entries[i].Sources) > 0 {
				text, err := json.Marshal(entries[i])
				require.NoError(t, err)
				file.Write(text)
			}
		}
		became, err := convert.Files([]convert.File{{Name: "intentions.json", Data: []byte(file.String())}}, nil, convert.Options{From: convert.Consul, Namespace: "shop"})
		require.NoError(t, err)
		for range 40 {
			from, to := among(r, "a", "b", "c"), among(r, "web", "db", "unheard-of")
			q := asked{
				principal: "cluster.local/ns/shop/sa/" + from, labels: map[string]string{"app": to},
				request: request{path: among(r, "/", "/a", "/a/b", "/b"), method: among(r, "GET", "PUT", "POST"), headers: among(r, nil, map[string]string{"x-a": "yes"}, map[string]string{"x-a": "no"})},
			}
			want, known := decides(entries, otherwise == "allow", from, to, q)
			if to == "unheard-of" && want {
				continue // it may be refused: nobody knew of the service
			}
			got := allowed(became.Documents, q)
			if known {
				require.Equal(t, want, got, "%s asks %s %+v\n%s\n%s", from, to, q.request, file.String(), written(t, became))
			} else {
				require.False(t, got && !want, "%s asks %s %+v\n%s\n%s", from, to, q.request, file.String(), written(t, became))
			}
			if got {
				letIn++
			} else {
				refused++
			}
		}
	}
	require.Positive(t, letIn)
	require.Positive(t, refused)
}

// split is one of a splitter, as Consul writes it.
type split struct {
	Weight                 int
	Service, ServiceSubset string `json:",omitempty"`
}

// drawSplits is a splitter whose splits lead to some of what there is, to what cannot be said, or nowhere.
func drawSplits(r *rand.Rand, of []split) (out []split) {
	for left := 100; left > 0; {
		one := pick(r, of)
		one.Weight = min(left, among(r, 5, 10, 30, 60))
		left -= one.Weight
		out = append(out, one)
	}
	return out
}

// Whatever splitters divide, each target has the share that it had, and only that of what cannot be said is refused.
func TestSplittersKeepTheirShares(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	targets := []split{{Service: "web", ServiceSubset: "v1"}, {Service: "web", ServiceSubset: "odd"}, {Service: "web", ServiceSubset: "unheard-of"}, {Service: "api"}, {Service: "nobody"}}
	refused, kept := 0, 0
	for range 200 {
		inner, outer := drawSplits(r, targets), drawSplits(r, append(targets, split{Service: "inner"}))
		var text strings.Builder
		text.WriteString(`{"Kind": "proxy-defaults", "Name": "global", "Config": {"protocol": "http"}} {"Kind": "service-defaults", "Name": "api"}
			{"Kind": "service-resolver", "Name": "web", "Subsets": {"v1": {"Filter": "Service.Meta.version == v1"}, "odd": {"Filter": "Service.Meta.version != v1"}}}`)
		want := map[string]float64{}
		count := func(all []split, of float64) {
			for _, s := range all {
				if s.Service != "inner" {
					want[s.Service+" "+s.ServiceSubset] += of * float64(s.Weight)
				}
			}
		}
		count(outer, 100)
		for _, s := range outer {
			if s.Service == "inner" {
				count(inner, float64(s.Weight))
			}
		}
		for name, splits := range map[string][]split{"inner": inner, "outer": outer} {
			entry, err := json.Marshal(map[string]any{"Kind": "service-splitter", "Name": name, "Splits": splits})
			require.NoError(t, err)
			text.Write(entry)
		}
		became, err := convert.Files([]convert.File{{Name: "splits.json", Data: []byte(text.String())}}, nil, convert.Options{From: convert.Consul, Namespace: "shop"})
		require.NoError(t, err)
		got, there := shares(became.Documents, "outer.service.consul")
		require.Len(t, got, len(want), "%s\n%s", text.String(), written(t, became))
		for target, share := range want {
			require.InDelta(t, share, got[target], 0.01, "%s\n%s", text.String(), written(t, became))
			if is := strings.HasSuffix(target, " v1") || target == "api "; is {
				kept++
				require.True(t, there[target], target)
			} else {
				refused++
				require.False(t, there[target], "%s is to be refused", target)
			}
		}
	}
	require.Positive(t, kept)
	require.Positive(t, refused)
}

// shares are those of the destinations of a host, of 10,000, and whether each destination is there.
func shares(documents []*kinds.Document, host string) (of map[string]float64, there map[string]bool) {
	of, there = map[string]float64{}, map[string]bool{}
	hosts, subsets := map[string]bool{}, map[string]bool{}
	var routes []*networking.HTTPRouteDestination
	for _, d := range documents {
		switch spec := d.Resource.Spec.Message().(type) {
		case *networking.ServiceEntry:
			hosts[spec.GetHosts()[0]] = true
		case *networking.DestinationRule:
			for _, s := range spec.GetSubsets() {
				subsets[spec.GetHost()+" "+s.GetName()] = true
			}
		case *networking.VirtualService:
			if spec.GetHosts()[0] == host {
				routes = spec.GetHttp()[0].GetRoute()
			}
		}
	}
	total := int32(0)
	for _, d := range routes {
		total += max(d.GetWeight(), 1)
	}
	for _, d := range routes {
		to := d.GetDestination()
		name := strings.TrimSuffix(to.GetHost(), ".service.consul") + " " + to.GetSubset()
		of[name] += float64(max(d.GetWeight(), 1)) / float64(total) * 10000
		there[name] = hosts[to.GetHost()] && (to.GetSubset() == "" || subsets[to.GetHost()+" "+to.GetSubset()])
	}
	return of, there
}
