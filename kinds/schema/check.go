package schema

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pgmesh/pgmesh/internal/kit/nearest"
)

// Problem is one violation.
type Problem struct{ Path, Reason, Hint string }

// Check walks a JSON tree, whose numbers are json.Number and whose root is at the given path, and
// returns what is wrong with it. It also returns the tree in its normal form, one spelling of the
// same meaning: JSON names instead of aliases, enums by name, numbers without quotes, durations in
// seconds ("90s", "0.100s"), absent instead of null. Explicit zero values stay. The normal form is
// only valid if there are no problems. The given tree is not changed.
func Check(root *Type, path string, tree any) (normal any, problems []Problem) {
	w := &walk{}
	normal = w.object(root, path, tree)
	return normal, w.problems
}

type walk struct{ problems []Problem }

func (w *walk) report(path, reason, hint string) {
	w.problems = append(w.problems, Problem{path, reason, hint})
}

func (w *walk) object(t *Type, path string, v any) any {
	members, ok := v.(map[string]any)
	if !ok {
		w.report(path, wrongType("an object", v), "")
		return nil
	}
	normal := make(map[string]any, len(members))
	for i := range t.Fields {
		f := &t.Fields[i]
		name, found := w.spelling(f, path, members)
		switch {
		case found:
			normal[f.Name] = w.field(f, Member(path, name), members[name])
		case f.Required:
			w.report(Member(path, f.Name), "required field is missing", "")
		}
	}
	w.oneofs(t, path, normal)
	w.unknown(t, path, members)
	return normal
}

// spelling returns the name under which the object has the field.
func (w *walk) spelling(f *Field, path string, members map[string]any) (string, bool) {
	name, found := f.Name, members[f.Name] != nil
	for _, alias := range f.Aliases {
		switch {
		case members[alias] == nil:
		case found:
			w.exclusive(path, []string{name, alias})
		default:
			name, found = alias, true
		}
	}
	return name, found
}

func (w *walk) exclusive(path string, set []string) {
	if len(set) > 1 {
		w.report(path, "only one of "+strings.Join(set, ", ")+" may be set", "")
	}
}

func (w *walk) oneofs(t *Type, path string, members map[string]any) {
	for _, oneof := range t.Oneofs {
		var set []string
		for _, name := range oneof {
			if _, ok := members[name]; ok {
				set = append(set, name)
			}
		}
		w.exclusive(path, set)
	}
}

func (w *walk) unknown(t *Type, path string, members map[string]any) {
	var strangers []string
	for name := range members {
		if !slices.ContainsFunc(t.Fields, func(f Field) bool { return f.Name == name || slices.Contains(f.Aliases, name) }) {
			strangers = append(strangers, name)
		}
	}
	slices.Sort(strangers)
	for _, name := range strangers {
		w.report(Member(path, name), `unknown field "`+name+`"`, t.fieldHint(name))
	}
}

func (t *Type) fieldHint(stranger string) string {
	if len(t.Fields) == 0 {
		return "it has no fields"
	}
	known := make([]string, len(t.Fields))
	for i := range t.Fields {
		known[i] = t.Fields[i].Name
	}
	return nearest.Hint(stranger, known, "known fields: ")
}

func (w *walk) field(f *Field, path string, v any) any {
	switch {
	case f.Repeated:
		return w.list(f, path, v)
	case f.Map:
		return w.mapping(f, path, v)
	}
	return w.single(f, path, v)
}

func (w *walk) list(f *Field, path string, v any) any {
	items, ok := v.([]any)
	if !ok {
		w.report(path, wrongType("a list", v), "")
		return nil
	}
	w.count(f, path, len(items))
	normal := make([]any, len(items))
	for i, item := range items {
		normal[i] = w.single(f, Item(path, i), item)
	}
	return normal
}

func (w *walk) mapping(f *Field, path string, v any) any {
	members, ok := v.(map[string]any)
	if !ok {
		w.report(path, wrongType("an object", v), "")
		return nil
	}
	w.count(f, path, len(members))
	normal := make(map[string]any, len(members))
	for _, key := range slices.Sorted(maps.Keys(members)) {
		at := Member(path, key)
		if f.KeyType != "" && !keyText.MatchString(key) {
			w.report(at, fmt.Sprintf(`key "%s" is not an integer`, key), "")
			continue
		}
		if reason, hint := f.KeyFormat.reason(key); reason != "" {
			w.report(at, reason, hint)
		}
		normal[key] = w.single(f, at, members[key])
	}
	return normal
}

func (w *walk) count(f *Field, path string, n int) {
	if reason := sizeReason(f.MinItems, f.MaxItems, n, "item"); reason != "" {
		w.report(path, reason, "")
	}
}

func (w *walk) single(f *Field, path string, v any) any {
	if f.Type == Message {
		return w.object(Types()[f.TypeRef], path, v)
	}
	normal, reason, hint := scalar(f, v)
	if reason != "" {
		w.report(path, reason, hint)
	}
	return normal
}
