package jsonschema

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/pgmesh/pgmesh/kinds/schema"
)

// writer collects the definitions of the types that a schema uses.
type writer struct{ definitions object }

// reference refers to the definition of a type.
func (w *writer) reference(t *schema.Type) object {
	if _, has := w.definitions[t.Name]; !has {
		w.definitions[t.Name] = object{} // it may refer to itself
		w.definitions[t.Name] = w.object(t)
	}
	return object{"$ref": "#/definitions/" + pointer(t.Name)}
}

// pointer escapes a name for a JSON pointer.
func pointer(name string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}

// object describes a message. The other names of fields are patterns, so that editors do not
// suggest them.
func (w *writer) object(t *schema.Type) object {
	properties, aliases, all := object{}, object{}, []object{}
	var required []string
	for i := range t.Fields {
		f := &t.Fields[i]
		value := w.field(f)
		if f.Repeated && differ(t, f.Name) {
			value["uniqueItems"] = true
		}
		if text := Description(t.Name, f.Name); text != "" {
			value = described(value, text)
		}
		properties[f.Name] = value
		for _, alias := range f.Aliases {
			aliases["^"+regexp.QuoteMeta(alias)+"$"] = value
		}
		switch {
		case f.Required && len(f.Aliases) == 0:
			required = append(required, f.Name)
		case f.Required:
			all = append(all, present(f))
		}
	}
	for _, set := range t.Oneofs {
		all = append(all, w.exclusions(t, set)...)
	}
	out := object{"type": "object", "additionalProperties": false, "properties": properties}
	if len(aliases) > 0 {
		out["patternProperties"] = aliases
	}
	if len(required) > 0 {
		out["required"] = required
	}
	if len(all) > 0 {
		out["allOf"] = all
	}
	return out
}

// differ reports whether a rule says that the items of a list must differ.
func differ(t *schema.Type, list string) bool {
	return slices.ContainsFunc(t.Rules, func(r *schema.Rule) bool { return r.Each == list && r.When == "" && r.Unique != nil && *r.Unique == "" })
}

// described adds a description. Beside a reference, draft 7 ignores all else.
func described(value object, text string) object {
	if _, is := value["$ref"]; is {
		return object{"allOf": []object{value}, "description": text}
	}
	value = maps.Clone(value)
	value["description"] = text
	return value
}

// present holds if a field is there, under any of its names.
func present(f *schema.Field) object {
	ways := []object{{"required": []string{f.Name}}}
	for _, alias := range f.Aliases {
		ways = append(ways, object{"required": []string{alias}})
	}
	if len(ways) == 1 {
		return ways[0]
	}
	return object{"anyOf": ways}
}

// exclusions say that at most one field of a set is there.
func (*writer) exclusions(t *schema.Type, set []string) (all []object) {
	var fields []*schema.Field
	for i := range t.Fields {
		if slices.Contains(set, t.Fields[i].Name) {
			fields = append(fields, &t.Fields[i])
		}
	}
	for i, one := range fields {
		for _, other := range fields[i+1:] {
			all = append(all, object{"not": object{"allOf": []object{present(one), present(other)}}})
		}
	}
	return all
}

// field describes the value of a field.
func (w *writer) field(f *schema.Field) object {
	switch {
	case f.Repeated:
		out := object{"type": "array", "items": w.value(f, false)}
		put(out, "minItems", f.MinItems)
		put(out, "maxItems", f.MaxItems)
		return out
	case f.Map:
		out := object{"type": "object", "additionalProperties": w.value(f, false)}
		put(out, "minProperties", f.MinItems)
		put(out, "maxProperties", f.MaxItems)
		switch {
		case f.KeyType != "":
			out["propertyNames"] = object{"pattern": "^[0-9]+$"}
		case f.KeyFormat != nil:
			if names := formatted(f.KeyFormat, false); len(names) > 0 {
				out["propertyNames"] = names
			}
		}
		return out
	}
	return w.value(f, true)
}

// put sets a bound, if there is one.
func put[N int | float64](o object, name string, n *N) {
	if n != nil {
		o[name] = *n
	}
}

// The forms in which numbers and durations can be written as strings.
const (
	wholeText    = `^-?[0-9]+$`
	numberText   = `^-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?$`
	durationText = `^[-+]?([0-9]+|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$`
)

// value describes a single value, which is a field or an item.
func (w *writer) value(f *schema.Field, single bool) object {
	switch f.Type {
	case schema.Message:
		return w.reference(schema.Types()[f.TypeRef])
	case schema.Struct:
		return object{"type": "object"}
	case schema.Bool:
		return object{"type": "boolean"}
	case schema.Enum:
		return enumeration(f)
	case schema.Duration:
		return object{"type": []string{"string", "integer"}, "pattern": durationText}
	case schema.Bytes:
		return object{"type": "string", "contentEncoding": "base64"}
	case schema.Double:
		return numeric(f, "number", numberText)
	case schema.Int32, schema.Int64, schema.Uint32, schema.Uint64:
		return numeric(f, "integer", wholeText)
	default:
		return text(f, single)
	}
}

func numeric(f *schema.Field, name, pattern string) object {
	out := object{"type": []string{name, "string"}, "pattern": pattern}
	put(out, "minimum", f.Min)
	put(out, "maximum", f.Max)
	return out
}

// enumeration describes an enum. Its numbers are taken, and are not for editors to suggest.
func enumeration(f *schema.Field) object {
	names := object{"type": "string", "enum": f.Enum}
	if len(f.Numbers) == 0 {
		return names
	}
	return object{"anyOf": []object{names, {"type": "integer", "minimum": slices.Min(f.Numbers), "maximum": slices.Max(f.Numbers)}}}
}

func text(f *schema.Field, single bool) object {
	out := object{}
	if f.Format != nil {
		out = formatted(f.Format, single)
	}
	out["type"] = "string"
	if len(f.Enum) > 0 {
		out["enum"] = f.Enum
	}
	put(out, "minLength", f.MinLength)
	put(out, "maxLength", f.MaxLength)
	if f.Pattern == "" {
		return out
	}
	if _, has := out["pattern"]; has {
		return object{"allOf": []object{out, {"pattern": f.Pattern}}}
	}
	out["pattern"] = f.Pattern
	return out
}
