package store

import (
	"fmt"

	"github.com/pgmesh/pgmesh/kinds/schema"
)

// The quick check asks few predicates, each about much. They hold of what is right, and of nothing that is wrong: what they do not hold of is
// looked at again, so they may ask for more than must be. It is for others to see that an object has no members but its fields.
//
// A predicate about a value would be unknown, or would be about the items of a list, where the value is not of the JSON type it should
// be. So that is always asked first.

// ownValues holds of an object of a type if nothing is wrong in those of its fields that are not made of objects.
func ownValues(t *schema.Type) string {
	return allOf(members(t, false)...)
}

// ownParts holds of an object if those of its fields are there as they should be that are made of objects, whatever is in these, and
// if it has none of the faults that are about several fields.
func ownParts(t *schema.Type, faults string) string {
	return allOf(append(members(t, true), not(faults))...)
}

func members(t *schema.Type, areObjects bool) []string {
	predicates := make([]string, 0, len(t.Fields)+1)
	for i := range t.Fields {
		if f := &t.Fields[i]; (f.Type == schema.Message) == areObjects {
			predicates = append(predicates, member(f, value(f)))
		}
	}
	return predicates
}

// member is what must be true of a field, if the predicate about the current item must be true of its value, or of each in its list or map.
func member(f *schema.Field, predicate string) string {
	path := "$." + literal(f.Name)
	switch {
	case f.Type == schema.Bytes:
		return not("exists(" + path + ")")
	case !f.Repeated && !f.Map && predicate == "":
		return onlyOfType(path, jsonTypes[f.Type])
	case !f.Repeated && !f.Map:
		return fmt.Sprintf(`(!exists(%[1]s) || %[1]s.type() == "%[2]s" && exists(%[1]s ? (%[3]s)))`, path, jsonTypes[f.Type], predicate)
	}
	container, values := list(path, f), path+"[*]"
	if f.Map {
		container, values = keyed(path, f), path+".*"
	}
	all := allOf(container, onlyOfType(values, jsonTypes[f.Type]))
	if predicate != "" {
		all = allOf(all, noneMatches(values, not(predicate)))
	}
	return fmt.Sprintf("(!exists(%s) || %s)", path, all)
}

func list(path string, f *schema.Field) string {
	low, high := "", ""
	if f.MinItems != nil {
		low = fmt.Sprintf("%s.size() >= %d", path, *f.MinItems)
	}
	if f.MaxItems != nil {
		high = fmt.Sprintf("%s.size() <= %d", path, *f.MaxItems)
	}
	return allOf(onlyOfType(path, "array"), low, high)
}

// keyed is about a map. A path cannot count members, so a map that may have only so many is looked at again.
func keyed(path string, f *schema.Field) string {
	var keys, low, high string
	if f.KeyType != "" {
		keys = matches("^[0-9]{1,9}$")
	}
	if f.KeyFormat != nil {
		keys = allOf(keys, syntax(f.KeyFormat))
	}
	if keys != "" {
		keys = noneMatches(path+".keyvalue().key", not(keys))
	}
	if f.MinItems != nil {
		low = fmt.Sprintf("exists(%s.*)", path)
	}
	if f.MaxItems != nil || f.MinItems != nil && *f.MinItems > 1 {
		high = alwaysFalse
	}
	return allOf(onlyOfType(path, "object"), low, high, keys)
}
