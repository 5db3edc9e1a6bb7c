package jsonschema

import (
	"strings"
	"unicode"

	"github.com/pgmesh/pgmesh/kinds/schema"
)

// formatted describes a format, as far as patterns do. As a field of its own an empty string means
// that the field is not set.
func formatted(f *schema.Format, optional bool) object {
	if f.Or != "" {
		return alternatives(f, schema.Formats()[f.Or], optional)
	}
	out := object{}
	if pattern, is := portable(f.Pattern); is {
		out["pattern"] = orEmpty(pattern, optional)
	}
	put(out, "maxLength", f.Max)
	var not []object
	if pattern, is := portable(f.Unlike); is {
		not = append(not, object{"pattern": pattern})
	}
	if pattern, is := portable(f.Long); is {
		not = append(not, object{"minLength": 64, "pattern": pattern})
	}
	if len(not) > 0 {
		out["not"] = object{"anyOf": not}
	}
	return out
}

// alternatives describes a format that another can stand in for.
func alternatives(f, other *schema.Format, optional bool) object {
	plain := *f
	plain.Or = ""
	one, two := formatted(&plain, optional), formatted(other, optional)
	if len(one) == 0 || len(two) == 0 { // anything may match
		return object{}
	}
	return object{"anyOf": []object{one, two}}
}

func orEmpty(pattern string, optional bool) string {
	if !optional {
		return pattern
	}
	return "^$|(?:" + pattern + ")"
}

// portable returns a pattern as the regular expressions of JavaScript have it, which are those of
// JSON Schema. It reports whether there is one.
func portable(pattern string) (string, bool) {
	rest, caseless := strings.CutPrefix(pattern, "(?i)")
	switch {
	case pattern == "", strings.Contains(rest, "(?i"), strings.Contains(rest, "[[:"), strings.Contains(rest, `\A`), strings.Contains(rest, `\z`):
		return "", false
	case !caseless:
		return pattern, true
	case strings.ContainsAny(rest, `[\`):
		return "", false // classes and escapes have no cases of their own
	}
	return bothCases(rest), true
}

// bothCases writes each letter of a pattern in both cases.
func bothCases(pattern string) string {
	var b strings.Builder
	for _, r := range pattern {
		if unicode.IsLetter(r) {
			b.WriteString("[" + string(unicode.ToLower(r)) + string(unicode.ToUpper(r)) + "]")
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}
