package main

import (
	"fmt"
	"strings"

	"github.com/pgmesh/pgmesh/kinds/reference"
)

// query is one SELECT.
type query struct {
	columns string
	from    []string
}

func (q query) String() string {
	return "SELECT " + q.columns + " FROM " + strings.Join(q.from, ", ")
}

func union(queries []query, indent string) string {
	var b strings.Builder
	for i, q := range queries {
		if i > 0 {
			b.WriteString(indent + "UNION ALL ")
		} else {
			b.WriteString(indent)
		}
		b.WriteString(q.String() + "\n")
	}
	return b.String()
}

// path is an expression for the path of a place: texts, and between them the positions in lists.
type path []string

func literal(text string) path { return path{text} }

func (p path) then(text string) path {
	out := append(path{}, p...)
	out[len(out)-1] += text
	return out
}

// expression adds one, and after it an empty text.
func (p path) expression(sql string) path { return append(append(path{}, p...), sql, "") }

func (p path) String() string {
	var parts []string
	for i, part := range p {
		switch {
		case i%2 == 1:
			parts = append(parts, part)
		case part != "":
			parts = append(parts, "'"+part+"'")
		}
	}
	return strings.Join(parts, " || ")
}

// below are the queries for what is named below an object. Each list is gone through once.
func below(places []*reference.Place, object string, at path, depth int) []query {
	var all []query
	for _, f := range alike(places) {
		value, here, list := f.read(object, at, depth)
		var found []query
		if n := f.place.Named; n != nil && n.Role != "" {
			found = append(found, row(n, value, here))
		}
		found = append(found, below(f.place.Below, value, here, depth+1)...)
		all = append(all, within(list, found, depth)...)
	}
	return all
}

// within asks for each item of a list.
func within(list string, found []query, depth int) []query {
	switch {
	case list == "" || len(found) == 0:
		return found
	case len(found) == 1:
		found[0].from = append([]string{list}, found[0].from...)
		return found
	}
	indent := strings.Repeat("  ", depth+2)
	x := fmt.Sprintf("x%d", depth)
	return []query{{x + ".*", []string{list, "LATERAL (\n" + union(found, indent) + strings.Repeat("  ", depth+1) + ") AS " + x}}}
}
