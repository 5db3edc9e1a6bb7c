package precedence

import (
	"slices"
	"strings"
)

// Value is what a header or a parameter has to be.
type Value struct {
	Name, Text string
	Regex      bool // of the whole value
}

// Match is what a request has to be like. The zero value matches any.
type Match struct {
	Path    Path
	Method  string
	Headers []Value
	Params  []Value
}

// Covers reports whether every request of other is one of m. It may say no where it cannot tell.
func (m Match) Covers(other Match) bool {
	return m.Path.covers(other.Path) && m.Unless(other)
}

// Unless reports whether everything but the path is so in m wherever it is so in other.
func (m Match) Unless(other Match) bool {
	return (m.Method == "" || m.Method == other.Method) && within(m.Headers, other.Headers, strings.EqualFold) && within(m.Params, other.Params, identical)
}

func identical(a, b string) bool { return a == b }

// within reports whether all that is asked for by few is asked for by many, too.
func within(few, many []Value, equal func(a, b string) bool) bool {
	return !slices.ContainsFunc(few, func(want Value) bool {
		return !slices.ContainsFunc(many, func(v Value) bool { return equal(v.Name, want.Name) && want.covers(v) })
	})
}

func (v Value) covers(other Value) bool {
	return v.Regex == other.Regex && v.Text == other.Text || v.Regex && !other.Regex && matchesWhole(v.Text, other.Text)
}

// Overlaps reports whether some request may be one of both. It may say yes where it cannot tell.
func (m Match) Overlaps(other Match) bool {
	return m.Path.overlaps(other.Path) && (m.Method == "" || other.Method == "" || m.Method == other.Method) &&
		together(m.Headers, other.Headers, strings.EqualFold) && together(m.Params, other.Params, identical)
}

// together reports whether values can be so at the same time.
func together(a, b []Value, equal func(a, b string) bool) bool {
	for _, x := range a {
		for _, y := range b {
			if equal(x.Name, y.Name) && !x.covers(y) && !y.covers(x) && (!x.Regex || !y.Regex) {
				return false
			}
		}
	}
	return true
}

// Meet is what requests of both are like, if a Match can say that.
func (m Match) Meet(other Match) (Match, bool) {
	path, ok := m.Path.meet(other.Path)
	out := Match{Path: path, Method: m.Method}
	if out.Method == "" {
		out.Method = other.Method
	}
	if ok {
		out.Headers, ok = both(m.Headers, other.Headers, strings.EqualFold)
	}
	if ok {
		out.Params, ok = both(m.Params, other.Params, identical)
	}
	return out, ok && len(out.Headers) <= maxValues && len(out.Params) <= maxValues
}

// maxValues is how many headers, and how many parameters, a match of the Gateway API has.
const maxValues = 16

// both asks for the values of two lists.
func both(a, b []Value, equal func(a, b string) bool) ([]Value, bool) {
	out := slices.Clone(a)
	for _, v := range b {
		at := slices.IndexFunc(out, func(o Value) bool { return equal(o.Name, v.Name) })
		switch {
		case at < 0:
			out = append(out, v)
		case out[at].covers(v):
			out[at] = v
		case !v.covers(out[at]):
			return nil, false
		}
	}
	return out, true
}
