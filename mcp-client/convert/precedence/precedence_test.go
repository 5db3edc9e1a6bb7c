package precedence_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/mcp-client/convert/precedence"
)

// request is what rules decide about.
type request struct {
	path, method    string
	headers, params map[string]string
}

// has reports whether a rule of the source has a request.
func has(m precedence.Match, r request) bool {
	p := m.Path
	path := p.Text == "" && p.Form != precedence.Regex
	switch p.Form {
	case precedence.Beginning:
		path = path || strings.HasPrefix(r.path, p.Text)
	case precedence.Segments:
		path = path || within(r.path, p.Text)
	case precedence.Exact:
		path = path || r.path == p.Text
	case precedence.Regex:
		path = whole(p.Text, r.path)
	}
	return path && others(m, r)
}

func others(m precedence.Match, r request) bool {
	return (m.Method == "" || m.Method == r.method) && asked(m.Headers, r.headers) && asked(m.Params, r.params)
}

func asked(want []precedence.Value, have map[string]string) bool {
	return !slices.ContainsFunc(want, func(v precedence.Value) bool {
		got, is := have[v.Name]
		return !is || v.Regex && !whole(v.Text, got) || !v.Regex && got != v.Text
	})
}

func within(path, prefix string) bool {
	prefix = strings.TrimSuffix(prefix, "/")
	return path == prefix || strings.HasPrefix(path, prefix+"/")
}

// compiled keeps expressions, of which the same are asked for again and again.
var compiled sync.Map

func whole(expression, text string) bool {
	is, known := compiled.Load(expression)
	if !known {
		is, _ = compiled.LoadOrStore(expression, regexp.MustCompile("^(?:"+expression+")$"))
	}
	return is.(*regexp.Regexp).MatchString(text)
}

// tried are rules of the Gateway API in the order in which they are tried.
func tried(rules []precedence.Placed) []precedence.Placed {
	ranks := []string{precedence.TypeExact, precedence.TypePrefix, precedence.TypeRegex}
	return slices.SortedStableFunc(slices.Values(rules), func(a, b precedence.Placed) int {
		return cmp.Or(cmp.Compare(slices.Index(ranks, a.Type), slices.Index(ranks, b.Type)), cmp.Compare(len(b.Value), len(a.Value)),
			cmp.Compare(min(1, len(b.Match.Method)), min(1, len(a.Match.Method))), cmp.Compare(len(b.Match.Headers), len(a.Match.Headers)),
			cmp.Compare(len(b.Match.Params), len(a.Match.Params)))
	})
}

const none = -2

// answered is what rules of the Gateway API do with a request, and with what its path has beyond the
// prefix.
func answered(sorted []precedence.Placed, r request) (to int, tail string) {
	for _, p := range sorted {
		var is bool
		switch p.Type {
		case precedence.TypeExact:
			is, tail = r.path == p.Value, p.Tail
		case precedence.TypePrefix:
			is, tail = within(r.path, p.Value), p.Tail+strings.TrimPrefix(r.path, strings.TrimSuffix(p.Value, "/"))
		default:
			is, tail = whole(p.Value, r.path), ""
		}
		if is && others(p.Match, r) {
			return p.To, tail
		}
	}
	return none, ""
}

var (
	paths       = []string{"", "/", "/a", "/a/", "/a/b", "/a/b/", "/ab", "/ab/", "/b", "/a/b/c", "/a//b"}
	expressions = []string{"/a.*", ".*b", "/a/[bc]", "/.*", "/a/b", "/(a|b)/.*", "/a(?:/.*)?"}
	texts       = []string{"/", "/a", "/a/", "/ax", "/a/b", "/a/b/", "/a/bx", "/a/b/c", "/ab", "/ab/", "/ab/c", "/b", "/b/b", "/c", "/a//b"}
	values      = []precedence.Value{{Name: "x", Text: "1"}, {Name: "x", Text: "2"}, {Name: "y", Text: "1"}, {Name: "x", Text: ".", Regex: true}, {Name: "y", Text: "1|2", Regex: true}}
)

func randomRule(random *rand.Rand, to int) precedence.Rule {
	r := precedence.Rule{To: to}
	r.Match.Path = precedence.Path{Form: precedence.Form(random.IntN(4)), Text: paths[random.IntN(len(paths))]}
	if r.Match.Path.Form == precedence.Regex {
		r.Match.Path.Text = expressions[random.IntN(len(expressions))]
	}
	if random.IntN(5) == 0 {
		r.Match.Method = []string{"GET", "PUT"}[random.IntN(2)]
	}
	if random.IntN(3) == 0 {
		r.Match.Headers = []precedence.Value{values[random.IntN(len(values))]}
	}
	if random.IntN(6) == 0 {
		r.Match.Params = []precedence.Value{values[random.IntN(len(values))]}
	}
	r.Replaces = r.Match.Path.Form < precedence.Exact && random.IntN(5) == 0
	r.Refuses = !r.Replaces && random.IntN(5) == 0
	return r
}

func requests() (all []request) {
	bags := []map[string]string{{}, {"x": "1"}, {"x": "2", "y": "1"}, {"y": "2"}, {"x": "3"}}
	for _, path := range texts {
		for _, method := range []string{"GET", "PUT"} {
			for _, headers := range bags {
				for _, params := range bags[:3] {
					all = append(all, request{path, method, headers, params})
				}
			}
		}
	}
	return all
}

// Rules of the Gateway API do with every request what the rules before did, in any order of them.
// Only what they are told to refuse may be refused.
func TestOrderKeepsTheMeaning(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	all, refusals, ahead, tooMany := requests(), 0, 0, 0
	for range 3000 {
		rules := make([]precedence.Rule, 1+random.IntN(7))
		for i := range rules {
			rules[i] = randomRule(random, i)
		}
		order, err := precedence.Of(rules)
		if err != nil {
			require.ErrorIs(t, err, precedence.ErrTooMany)
			tooMany++
			continue
		}
		sorted := tried(order.Rules)
		for _, r := range all {
			want := slices.IndexFunc(rules, func(rule precedence.Rule) bool { return has(rule.Match, r) })
			got, tail := answered(sorted, r)
			if want < 0 {
				want = none
			}
			if got == precedence.Nowhere && (len(order.Refused)+len(order.Beyond) > 0 || rules[max(want, 0)].Replaces || want == none) {
				refusals++
				continue
			}
			if want >= 0 && !rules[want].Refuses && slices.Contains(order.Ahead, got) {
				ahead++
				continue // what is told of; but nobody comes to be let in by it
			}
			wantedTail := ""
			if want >= 0 && rules[want].Replaces {
				wantedTail = strings.TrimPrefix(r.path, strings.TrimSuffix(rules[want].Match.Path.Text, "/"))
			} else {
				tail = ""
			}
			if want != got || wantedTail != tail {
				t.Fatalf("%v is answered by %d with %q, want %d with %q\nof %s\nas %s", r, got, tail, want, wantedTail, told(rules), told(order.Rules))
			}
		}
	}
	require.Less(t, refusals, 3000*len(all)/20, "what is refused where it could be answered")
	require.Less(t, ahead, 3000*len(all)/20, "what another rule answers than before")
	require.Less(t, tooMany, 30)
}

func told[R any](rules []R) string {
	var b strings.Builder
	for _, r := range rules {
		fmt.Fprintf(&b, "\n  %+v", r)
	}
	return b.String()
}

func TestWhatIsUsualStaysSimple(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		rules []precedence.Rule
		want  []string
	}{
		"prefixes of segments": {
			[]precedence.Rule{{Match: path(precedence.Segments, "/a"), To: 1}, {To: 2}},
			[]string{"PathPrefix /a: 1", "PathPrefix /: 2"},
		},
		"a prefix that ends in a slash": {
			[]precedence.Rule{{Match: path(precedence.Beginning, "/a/"), To: 1}, {To: 2}},
			[]string{"PathPrefix /a: 1", "Exact /a: 2", "PathPrefix /: 2"},
		},
		"a prefix of characters": {
			[]precedence.Rule{{Match: path(precedence.Beginning, "/a"), To: 1}, {To: 2}},
			[]string{"RegularExpression /a.*: 1", "RegularExpression /.*: 2"},
		},
		"a header before a path": {
			[]precedence.Rule{
				{Match: precedence.Match{Headers: []precedence.Value{{Name: "x", Text: "1"}}}, To: 1},
				{Match: path(precedence.Segments, "/a"), To: 2},
				{To: 3},
			},
			[]string{"PathPrefix /a x=1: 1", "PathPrefix / x=1: 1", "PathPrefix /a: 2", "PathPrefix /: 3"},
		},
		"what is never reached": {
			[]precedence.Rule{{Match: path(precedence.Segments, "/a"), To: 1}, {Match: path(precedence.Exact, "/a/b"), To: 2}},
			[]string{"PathPrefix /a: 1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			order, err := precedence.Of(c.rules)
			require.NoError(t, err)
			var got []string
			for _, r := range order.Rules {
				text := []string{r.Type, r.Value}
				for _, h := range r.Match.Headers {
					text = append(text, h.Name+"="+h.Text)
				}
				got = append(got, fmt.Sprintf("%s: %d", strings.Join(text, " "), r.To))
			}
			require.Equal(t, c.want, got)
		})
	}
}

func path(form precedence.Form, text string) precedence.Match {
	return precedence.Match{Path: precedence.Path{Form: form, Text: text}}
}

// No rules keep it going for long.
func FuzzOf(f *testing.F) {
	f.Add(uint64(1), 20)
	f.Add(uint64(2), 200)
	f.Add(uint64(92), 300) // took ten seconds
	f.Fuzz(func(t *testing.T, seed uint64, count int) {
		random := rand.New(rand.NewPCG(seed, 0))
		rules := make([]precedence.Rule, max(0, min(count, 300)))
		for i := range rules {
			rules[i] = randomRule(random, i)
		}
		_, err := precedence.Of(rules)
		if err != nil {
			require.ErrorIs(t, err, precedence.ErrTooMany)
		}
	})
}
