package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pgmesh/pgmesh/kinds/reference"
)

// field is a place, or several lists whose items are alike, such as the routes of all protocols: a
// query starts in fewer steps if it goes through them as one.
type field struct {
	place *reference.Place
	names []string
}

// alike puts together the lists of which one has all that the others have.
func alike(places []*reference.Place) []*field {
	var all []*field
	for _, p := range places {
		if p.Map {
			panic("names in maps are not read by the database: " + p.Field)
		}
		i := slices.IndexFunc(all, func(f *field) bool { return has(f.place, p) })
		if i < 0 {
			all = append(all, &field{p, []string{p.Field}})
		} else {
			all[i].names = append(all[i].names, p.Field)
		}
	}
	return all
}

func has(list, other *reference.Place) bool {
	return list.Repeated && other.Repeated && list.Named == nil && other.Named == nil && !slices.ContainsFunc(other.Below, func(b *reference.Place) bool {
		return !slices.ContainsFunc(list.Below, func(a *reference.Place) bool { return same(a, b) })
	})
}

func same(a, b *reference.Place) bool {
	return a.Field == b.Field && a.Repeated == b.Repeated && len(a.Below) == len(b.Below) && (a.Named == nil) == (b.Named == nil) &&
		(a.Named == nil || a.Named.Form == b.Named.Form && a.Named.Role == b.Named.Role) && slices.EqualFunc(a.Below, b.Below, same)
}

// read is the expression for the value, its path, and what goes through the list if it is an item
// of one.
func (f *field) read(object string, at path, depth int) (value string, here path, list string) {
	name := "'" + f.names[0] + "'"
	here = at.then("." + f.names[0])
	if len(f.names) > 1 {
		alias := fmt.Sprintf("f%d", depth)
		name, here = alias, at.then(".").expression(alias)
		list = fmt.Sprintf("unnest('{%s}'::text[]) AS %s, ", strings.Join(f.names, ","), alias)
	}
	value = object + " -> " + name
	if !f.place.Repeated {
		return value, here, ""
	}
	alias := fmt.Sprintf("l%d", depth)
	list += fmt.Sprintf("jsonb_path_query(%s, '$[*]') WITH ORDINALITY AS %s (v, i)", value, alias)
	return alias + ".v", here.then("[").expression(alias + ".i - 1").then("]"), list
}
