package haproxy

import (
	"regexp"
	"slices"
	"strings"

	"github.com/pgmesh/pgmesh/mcp-client/convert/haproxycfg"
	"github.com/pgmesh/pgmesh/mcp-client/convert/precedence"
)

// term is what requests are like that a condition is for. The zero value is any.
type term struct {
	host   string // "" for any, or one such as *.example.com
	match  precedence.Match
	scheme string // http, https, or "" for any
	name   string // what clients of TLS ask for, in mode tcp
}

// maxTerms bounds what a condition becomes.
const maxTerms = 256

// and is what is so in both of two terms; not ok if that cannot be said. It is nil if nothing is.
func (t term) and(o term) (out []term, ok bool) {
	switch {
	case t.scheme != "" && o.scheme != "" && t.scheme != o.scheme, !t.match.Overlaps(o.match):
		return nil, true
	case t.host == "" || covers(o.host, t.host):
	case o.host == "" || covers(t.host, o.host):
	default:
		return nil, true
	}
	both := term{host: t.host, scheme: t.scheme, name: t.name}
	if o.host != "" && (t.host == "" || covers(t.host, o.host)) {
		both.host = o.host
	}
	if both.scheme == "" {
		both.scheme = o.scheme
	}
	if both.name == "" {
		both.name = o.name
	}
	both.match, ok = t.match.Meet(o.match)
	return []term{both}, ok
}

// covers reports whether a host is one of those of a pattern.
func covers(pattern, host string) bool {
	rest, is := strings.CutPrefix(pattern, "*")
	return pattern == host || is && strings.HasSuffix(host, rest) && len(host) > len(rest)
}

// acls are those of a section, by their names: alternatives, or why they cannot be said.
type acls map[string]test

type test struct {
	any  []term
	why  string // it cannot be said
	only string // it is ssl_fc, which can be denied
}

// declare reads a line of acl. Several of one name are alternatives.
func (a acls) declare(l haproxycfg.Line, whole bool) {
	if len(l.Words) < 3 {
		return
	}
	more, known := testOf(l.Words[2:], whole), a[l.Word(1)]
	if known.why != "" {
		more.why = known.why
	}
	if len(known.any) > 0 {
		more.only = ""
	}
	more.any = append(slices.Clone(known.any), more.any...)
	a[l.Word(1)] = more
}

// condition reads what follows an if: tests that hold together, or alternatives of them. It returns why
// it cannot be said.
func (a acls) condition(words []string, whole bool) (out []term, why string) {
	if len(words) == 0 {
		return []term{{}}, ""
	}
	unless := words[0] == "unless"
	if words[0] != "if" && !unless {
		return nil, "it is no condition: " + strings.Join(words, " ")
	}
	together, begun := []term{{}}, false
	words = words[1:]
	if unless && len(words) != 1 && (len(words) == 0 || words[0] != "{") {
		return nil, "unless is for more than one test"
	}
	for len(words) > 0 {
		word := words[0]
		if word == "or" || word == "||" {
			out, together, begun, words = append(out, together...), []term{{}}, false, words[1:]
			continue
		}
		var one test
		one, words = a.next(words, whole)
		if one = one.denied(strings.HasPrefix(word, "!") != unless); one.why != "" {
			return nil, one.why
		}
		if together, why = product(together, one.any); why != "" {
			return nil, why
		}
		begun = true
	}
	if !begun {
		return nil, "a condition has no test"
	}
	if out = append(out, together...); len(out) > maxTerms {
		return nil, "it has too many alternatives"
	}
	return out, ""
}

// next reads the next test of a condition: a name, or one in braces.
func (a acls) next(words []string, whole bool) (one test, rest []string) {
	word := strings.TrimPrefix(words[0], "!")
	if word == "" && len(words) > 1 {
		words, word = words[1:], words[1]
	}
	if word != "{" {
		known, is := a[word]
		switch {
		case is:
			return known, words[1:]
		case word == "TRUE":
			return test{any: []term{{}}}, words[1:]
		case word == "METH_GET":
			return test{why: "METH_GET is for HEAD, too"}, words[1:]
		}
		return test{why: "there is no acl " + word}, words[1:]
	}
	end := slices.Index(words, "}")
	if end < 2 {
		return test{why: "a { has no }"}, nil
	}
	return testOf(words[1:end], whole), words[end+1:]
}

// denied is the opposite of a test, which can be said of one for TLS alone.
func (t test) denied(is bool) test {
	switch {
	case !is || t.why != "":
		return t
	case t.only != "":
		return test{any: []term{{scheme: t.only}}}
	}
	return test{why: "a route has no match for what is not so"}
}

func product(a, b []term) (out []term, why string) {
	for _, x := range a {
		for _, y := range b {
			both, ok := x.and(y)
			if !ok {
				return nil, "what two of its tests have in common cannot be said"
			}
			out = append(out, both...)
		}
	}
	if len(out) > maxTerms {
		return nil, "it has too many alternatives"
	}
	return out, ""
}

var fetch = regexp.MustCompile(`^([a-z_.]+?)(?:_(beg|end|reg|sub|dir|dom|str))?(?:\(([^)]*)\))?$`)

// testOf reads a test: what is looked at, flags, and values of which one has to be so.
func testOf(words []string, whole bool) test {
	parts := fetch.FindStringSubmatch(words[0])
	if parts == nil {
		return test{why: words[0] + " is not understood"}
	}
	what, how, of := parts[1], parts[2], strings.ToLower(parts[3])
	fold, values := false, words[1:]
	for len(values) > 0 && strings.HasPrefix(values[0], "-") {
		flag := values[0]
		values = values[1:]
		switch {
		case flag == "-i":
			fold = true
		case flag == "-m" && len(values) > 0:
			how, values = values[0], values[1:]
		case flag == "--":
		default:
			return test{why: "the flag " + flag + " is not understood"}
		}
	}
	if what == "ssl_fc" {
		return test{any: []term{{scheme: "https"}}, only: "http"}
	}
	if how == "found" {
		values = []string{""}
	}
	out := test{}
	for _, value := range values {
		terms, why := termsOf(what, how, of, value, fold, whole)
		if why != "" {
			return test{why: why}
		}
		out.any = append(out.any, terms...)
	}
	if len(out.any) == 0 {
		out.why = words[0] + " has no value"
	}
	return out
}

// termsOf are the terms of one value.
func termsOf(what, how, of, value string, fold, whole bool) ([]term, string) {
	switch what = strings.TrimPrefix(what, "req."); {
	case what == "hdr" && of == "host" || what == "hdr" && of == "host,1":
		return hosts(how, strings.ToLower(value))
	case what == "ssl_sni" || what == "req_ssl_sni" || what == "ssl_fc_sni":
		return []term{{name: strings.ToLower(value)}}, onlyWhole(how, "names of TLS")
	case what == "path":
		p, why := pathOf(how, value, fold, whole)
		return []term{{match: precedence.Match{Path: p}}}, why
	case what == "method":
		return []term{{match: precedence.Match{Method: strings.ToUpper(value)}}}, onlyWhole(how, "methods")
	case what == "hdr" && of != "" && !strings.Contains(of, ","):
		v, why := valueOf(of, how, value, fold)
		return []term{{match: precedence.Match{Headers: []precedence.Value{v}}}}, why
	case (what == "urlp" || what == "url_param") && of != "":
		v, why := valueOf(of, how, value, fold)
		return []term{{match: precedence.Match{Params: []precedence.Value{v}}}}, why
	}
	return nil, "a route cannot look at " + what
}

func onlyWhole(how, what string) string {
	if how == "" || how == "str" {
		return ""
	}
	return "a route matches " + what + " as a whole"
}

// hosts are the terms for a host.
func hosts(how, value string) ([]term, string) {
	value, _, _ = strings.Cut(value, ":")
	switch {
	case how == "" || how == "str":
		return []term{{host: value}}, ""
	case how == "end" && strings.HasPrefix(value, ".") && len(value) > 1:
		return []term{{host: "*" + value}}, ""
	case how == "dom":
		return []term{{host: value}, {host: "*." + value}}, ""
	}
	return nil, "a route has hostnames, and those that end in one, such as *.example.com"
}

// pathOf is the match of a path.
func pathOf(how, value string, fold, whole bool) (precedence.Path, string) {
	quoted := regexp.QuoteMeta(value)
	var text string
	switch how {
	case "", "str":
		if !fold {
			return precedence.Path{Form: precedence.Exact, Text: value}, ""
		}
		text = quoted
	case "beg":
		if !fold {
			form := precedence.Beginning
			if whole {
				form = precedence.Segments
			}
			return precedence.Path{Form: form, Text: value}, ""
		}
		text = quoted + ".*"
	case "end":
		text = ".*" + quoted
	case "sub":
		text = ".*" + quoted + ".*"
	case "reg":
		text = precedence.Anywhere(value).Text
	default:
		return precedence.Path{}, "a route does not match paths by " + how
	}
	if _, err := regexp.Compile(text); err != nil {
		return precedence.Path{}, "Envoy has no such regular expression"
	}
	if fold {
		text = "(?i)" + text
	}
	return precedence.Path{Form: precedence.Regex, Text: text}, ""
}

// valueOf is the match of a header or a parameter.
func valueOf(name, how, value string, fold bool) (precedence.Value, string) {
	v := precedence.Value{Name: name, Text: regexp.QuoteMeta(value), Regex: true}
	switch how {
	case "", "str":
		if !fold {
			return precedence.Value{Name: name, Text: value}, ""
		}
	case "beg":
		v.Text += ".*"
	case "end":
		v.Text = ".*" + v.Text
	case "sub":
		v.Text = ".*" + v.Text + ".*"
	case "reg":
		v.Text = precedence.Anywhere(value).Text
	case "found":
		v.Text = ".*"
	default:
		return v, "a route does not match values by " + how
	}
	if _, err := regexp.Compile(v.Text); err != nil {
		return v, "Envoy has no such regular expression"
	}
	if fold {
		v.Text = "(?i)" + v.Text
	}
	return v, ""
}
