package kindtables

import (
	"slices"

	"github.com/pgmesh/pgmesh/kinds/schema"
)

// partRow is a path from an object of a type to an object within it.
type partRow struct {
	Type string `json:"type"`
	Path string `json:"path"`
	Part string `json:"part"` // the type at the path

	Position int `json:"position,omitempty"` // its position from 1 among the type's parts
}

// partsOf lists the objects within an object of a type.
func partsOf(types map[string]*schema.Type, of *schema.Type) []partRow {
	var rows []partRow
	var add func(at string, t *schema.Type, within []string)
	add = func(at string, t *schema.Type, within []string) {
		if slices.Contains(within, t.Name) {
			panic(t.Name + " is part of itself, so that its parts cannot be listed")
		}
		for _, f := range t.Fields {
			if f.Type != schema.Message {
				continue
			}
			path := at + "." + literal(f.Name)
			switch {
			case f.Repeated:
				path += "[*]"
			case f.Map:
				path += ".*"
			}
			rows = append(rows, partRow{of.Name, path, f.TypeRef, len(rows) + 1})
			add(path, types[f.TypeRef], append(within, t.Name))
		}
	}
	add("$", of, nil)
	return rows
}
