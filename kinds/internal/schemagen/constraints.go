package main

import (
	"regexp"

	"github.com/pgmesh/pgmesh/kinds/schema"
)

// apply copies the constraints of a value's schema to the field.
func apply(f *schema.Field, s *openAPI) {
	switch {
	case f.Repeated:
		f.MinItems, f.MaxItems = s.MinItems, s.MaxItems
		s = s.Items
	case f.Map:
		f.MinItems, f.MaxItems = s.MinProperties, s.MaxProperties
		s = s.AdditionalProperties
	}
	f.Min, f.Max = tighter(f.Min, s.Minimum, true), tighter(f.Max, s.Maximum, false)
	f.MaxLength, f.Pattern = s.MaxLength, s.Pattern
	if s.MinLength != nil && *s.MinLength > 0 {
		f.MinLength = s.MinLength
	}
	for _, v := range s.Validations {
		if v.Rule == portRule {
			f.Min, f.Max = tighter(f.Min, number(1.0), true), tighter(f.Max, number(65535.0), false)
		}
	}
}

// Two of the rules that CRDs express in CEL always have the same form, so the table can state them.
const portRule = "0 < self && self <= 65535"

var (
	exclusiveRule = regexp.MustCompile(`^(\(has\(self\.\w+\) \? 1 : 0\)( \+ )?){2,} <= 1$`)
	exclusiveName = regexp.MustCompile(`has\(self\.(\w+)\)`)
)

// exclusives returns the sets of mutually exclusive properties in the schema.
func exclusives(s *openAPI) [][]string {
	var sets [][]string
	for _, v := range s.Validations {
		if !exclusiveRule.MatchString(v.Rule) {
			continue
		}
		var set []string
		for _, match := range exclusiveName.FindAllStringSubmatch(v.Rule, -1) {
			set = append(set, match[1])
		}
		sets = append(sets, set)
	}
	return sets
}

// loosen relaxes a to what either a or b allows.
func loosen(a *schema.Field, b schema.Field) {
	a.Required = a.Required && b.Required
	a.MinItems, a.MaxItems = looser(a.MinItems, b.MinItems, true), looser(a.MaxItems, b.MaxItems, false)
	a.MinLength, a.MaxLength = looser(a.MinLength, b.MinLength, true), looser(a.MaxLength, b.MaxLength, false)
	a.Min, a.Max = looser(a.Min, b.Min, true), looser(a.Max, b.Max, false)
	if a.Pattern != b.Pattern {
		a.Pattern = ""
	}
}

func looser[N int | float64](a, b *N, lower bool) *N {
	if a == nil || b == nil {
		return nil
	}
	if (*a < *b) == lower {
		return a
	}
	return b
}

func tighter[N int | float64](a, b *N, lower bool) *N {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	case (*a < *b) == lower:
		return b
	}
	return a
}

func number[N int | float64](n N) *N { return &n }
