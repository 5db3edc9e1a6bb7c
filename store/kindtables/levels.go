package kindtables

import (
	"fmt"

	"github.com/pgmesh/pgmesh/kinds/schema"
)

// The quick check evaluates a few large predicates. They hold only for valid objects; an object for
// which they do not hold is checked in detail, so they may be stricter than the rules. Unknown
// fields are checked elsewhere.
//
// A predicate about a value of the wrong JSON type would be unknown, or apply to the items of a
// list. So the type is always tested first.

// ownValues holds for an object if its fields that are no objects have valid values.
func ownValues(t *schema.Type) string {
	return allOf(members(t, false)...)
}

// ownParts holds for an object if its fields that are objects have the right form, whatever is in
// them, and if it has none of the faults that concern several fields.
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

// member is the predicate about a field, given the predicate about its value, or about each value
// in its list or map.
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

// keyed is the predicate about a map. A path cannot count members, so a map with a limited number
// of them is checked in detail.
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
