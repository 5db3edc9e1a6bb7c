package main

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/pgmesh/pgmesh/kinds/schema"
)

// convert turns an object's schema into a type of this name, and nested objects into types named by
// their path: "gateway.networking.k8s.io/HTTPRoute.rules.matches".
func convert(types map[string]*schema.Type, name string, s *openAPI) error {
	t := &schema.Type{Fields: []schema.Field{}, Oneofs: exclusives(s)}
	types[name] = t
	for _, property := range slices.Sorted(maps.Keys(s.Properties)) {
		f := schema.Field{Name: property, Required: slices.Contains(s.Required, property)}
		if err := convertField(types, name+"."+property, &f, s.Properties[property]); err != nil {
			return fmt.Errorf("%s: %w", property, err)
		}
		t.Fields = append(t.Fields, f)
	}
	return nil
}

func convertField(types map[string]*schema.Type, name string, f *schema.Field, s *openAPI) error {
	value := s
	switch {
	case s.Items != nil:
		f.Repeated, value = true, s.Items
	case s.AdditionalProperties != nil:
		f.Map, value = true, s.AdditionalProperties
	}
	if err := setType(f, value); err != nil {
		return err
	}
	apply(f, s)
	if f.Type != schema.Message {
		return nil
	}
	f.TypeRef = name
	return convert(types, name, value)
}

func setType(f *schema.Field, s *openAPI) error {
	switch {
	case s.Type == "object" && s.Properties == nil:
		f.Type = schema.Struct
	case s.Type == "object":
		f.Type = schema.Message
	case s.Type == "string" && s.Enum != nil:
		f.Type, f.Enum = schema.Enum, s.Enum
	case s.Type == "string":
		f.Type = schema.String
	case s.Type == "boolean":
		f.Type = schema.Bool
	case s.Type == "integer":
		// An integer without a format has 64 bits, but no kind uses more than 32.
		f.Type, f.Min, f.Max = schema.Int32, number[float64](math.MinInt32), number[float64](math.MaxInt32)
	default:
		return fmt.Errorf("a value of the type %q is not supported", s.Type)
	}
	return nil
}
