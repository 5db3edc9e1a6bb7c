package precedence

import (
	"regexp"
	"regexp/syntax"
	"strings"
)

// Form says how a path is compared.
type Form int

// The forms. Segments is what the Gateway API calls PathPrefix: /a has /a and /a/b, and not /ab.
// Beginning is what nearly everybody else calls a prefix: /a has /ab as well.
const (
	Beginning Form = iota
	Segments
	Exact
	Regex // of the whole path
)

// Path is a match of paths. The zero value matches any.
type Path struct {
	Form Form
	Text string
}

// Any matches every path.
func (p Path) Any() bool {
	return p.Form != Regex && (p.Text == "" || p.Form != Exact && p.Text == "/")
}

// whole is the expression for exactly what a path matches.
func (p Path) whole() string {
	if p.Any() {
		return "/.*"
	}
	quoted := regexp.QuoteMeta(p.Text)
	switch p.Form {
	case Beginning:
		return quoted + ".*"
	case Segments:
		return strings.TrimSuffix(quoted, "/") + "(?:/.*)?"
	case Exact:
		return quoted
	default:
		return p.Text
	}
}

// literal is what every path begins with that an expression matches.
func literal(expression string) string {
	tree, err := syntax.Parse(expression, syntax.Perl)
	if err != nil {
		return ""
	}
	tree = tree.Simplify()
	if tree.Op == syntax.OpConcat && len(tree.Sub) > 0 {
		for len(tree.Sub) > 1 && (tree.Sub[0].Op == syntax.OpBeginText || tree.Sub[0].Op == syntax.OpBeginLine) {
			tree.Sub = tree.Sub[1:]
		}
		tree = tree.Sub[0]
	}
	if tree.Op == syntax.OpLiteral && tree.Flags&syntax.FoldCase == 0 {
		return string(tree.Rune)
	}
	return ""
}

// covers reports whether every path of q is one of p. It may say no where it cannot tell.
func (p Path) covers(q Path) bool {
	if p.Any() || p == q {
		return true
	}
	if q.Any() {
		return false
	}
	switch p.Form {
	case Beginning:
		return strings.HasPrefix(q.begins(), p.Text)
	case Segments:
		text := strings.TrimSuffix(p.Text, "/")
		return strings.HasPrefix(q.begins(), text+"/") || q.Form != Beginning && q.Form != Regex && strings.TrimSuffix(q.Text, "/") == text
	case Regex:
		return q.Form == Exact && matchesWhole(p.Text, q.Text)
	default:
		return false
	}
}

// begins is what every path of p begins with.
func (p Path) begins() string {
	switch p.Form {
	case Regex:
		return literal(p.Text)
	case Segments:
		return strings.TrimSuffix(p.Text, "/")
	default:
		return p.Text
	}
}

// overlaps reports whether some path may be one of both. It may say yes where it cannot tell.
func (p Path) overlaps(q Path) bool {
	if p.covers(q) || q.covers(p) {
		return true
	}
	switch {
	case p.Form == Regex && q.Form == Exact, q.Form == Regex && p.Form == Exact:
		return false // covers has tried it
	case p.Form == Regex || q.Form == Regex:
		a, b := p.begins(), q.begins()
		return strings.HasPrefix(a, b) || strings.HasPrefix(b, a)
	}
	return false
}

// meet is what is a path of both, if a Path can say that.
func (p Path) meet(q Path) (Path, bool) {
	switch {
	case p.covers(q):
		return q, true
	case q.covers(p):
		return p, true
	}
	return Path{}, false
}

// Anywhere is an expression that is looked for in the path, as one for the whole path.
func Anywhere(text string) Path {
	flags := ""
	if rest, fold := strings.CutPrefix(text, "(?i)"); fold {
		flags, text = "(?i)", rest
	}
	if alternatives(text) {
		return Path{Form: Regex, Text: flags + ".*(?:" + text + ").*"}
	}
	if begin, is := strings.CutPrefix(text, "^"); is {
		text = begin
	} else {
		text = ".*" + text
	}
	if end, is := strings.CutSuffix(text, "$"); is && !strings.HasSuffix(end, `\`) {
		text = end
	} else {
		text += ".*"
	}
	return Path{Form: Regex, Text: flags + text}
}

// alternatives reports whether an expression has alternatives outside of all brackets.
func alternatives(text string) bool {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '(', '[':
			depth++
		case ')', ']':
			depth--
		case '|':
			if depth <= 0 {
				return true
			}
		}
	}
	return false
}
