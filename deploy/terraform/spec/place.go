package spec

import (
	"regexp"
	"strconv"

	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/pgmesh/pgmesh/kinds/schema"
)

// step is a member or an item in a path, such as .http, [0] or ["x-y"].
var step = regexp.MustCompile(`^(?:\.?([A-Za-z_][A-Za-z0-9_-]*)|\[([0-9]+)\]|\["([^"]*)"\])`)

// Place returns where a path in a tree of JSON is in Terraform, as far as there is something: blocks
// of a map have no place of their own.
func Place(t *schema.Type, at string) path.Path {
	place, begun := path.Empty(), false
	var f *schema.Field
	for {
		found := step.FindStringSubmatch(at)
		if found == nil {
			return place
		}
		at = at[len(found[0]):]
		name, index := found[1]+found[3], found[2]
		switch {
		case f == nil && t != nil:
			if f = fieldOf(t, name); f == nil {
				return place
			}
			if begun {
				place = place.AtName(FieldName(f))
			} else {
				place, begun = path.Root(FieldName(f)), true
			}
			if single(f) {
				t, f = message(f), nil
			}
		case f != nil && f.Repeated && index != "":
			i, err := strconv.Atoi(index)
			if err != nil {
				return place
			}
			place, t, f = place.AtListIndex(i), itemOf(f), nil
		case f != nil && f.Map && f.Type != schema.Message:
			return place.AtMapKey(name)
		default:
			return place
		}
	}
}

// itemOf returns the type of the messages of a list, nil of other lists.
func itemOf(f *schema.Field) *schema.Type {
	if f.Type != schema.Message {
		return nil
	}
	return message(f)
}

func fieldOf(t *schema.Type, name string) *schema.Field {
	for i := range t.Fields {
		if f := &t.Fields[i]; f.Name == name {
			return f
		}
	}
	return nil
}
