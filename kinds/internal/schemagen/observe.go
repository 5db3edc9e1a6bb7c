package main

import (
	"slices"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/pgmesh/pgmesh/kinds/schema"
)

// observe walks a message and its CRD schema together and records the schema's constraints of each
// field.
func (m *messages) observe(message protoreflect.MessageDescriptor, s *openAPI) {
	name := string(message.FullName())
	m.observeOneofs(message, s)
	if m.observed[name] == nil {
		m.observed[name] = map[string]*schema.Field{}
	}
	for _, f := range m.types[name].Fields {
		property, ok := s.Properties[f.Name]
		if !ok {
			continue // the CRD hides the field, so it has no constraints
		}
		f.Required = slices.Contains(s.Required, f.Name)
		apply(&f, property)
		if seen := m.observed[name][f.Name]; seen != nil {
			loosen(seen, f)
		} else {
			m.observed[name][f.Name] = &f
		}
		m.observeBelow(message.Fields().ByJSONName(f.Name), f, property)
	}
}

func (m *messages) observeBelow(d protoreflect.FieldDescriptor, f schema.Field, s *openAPI) {
	if f.Type != schema.Message {
		return
	}
	switch {
	case f.Repeated:
		m.observe(d.Message(), s.Items)
	case f.Map:
		m.observe(d.MapValue().Message(), s.AdditionalProperties)
	default:
		m.observe(d.Message(), s)
	}
}

// observeOneofs keeps the sets of exclusive fields that every place of the message has.
func (m *messages) observeOneofs(message protoreflect.MessageDescriptor, s *openAPI) {
	name := string(message.FullName())
	var sets [][]string
	for _, set := range exclusives(s) {
		// Another spelling of a field in the set does not exclude it.
		sets = append(sets, slices.DeleteFunc(set, func(n string) bool { return message.Fields().ByJSONName(n) == nil }))
	}
	if before, seen := m.oneofs[name]; seen {
		sets = slices.DeleteFunc(slices.Clone(before), func(set []string) bool {
			return !slices.ContainsFunc(sets, func(other []string) bool { return slices.Equal(set, other) })
		})
	}
	m.oneofs[name] = sets
}

// constrain adds the observed constraints to the types.
func (m *messages) constrain() {
	for name, fields := range m.observed {
		t := m.types[name]
		for i := range t.Fields {
			if seen := fields[t.Fields[i].Name]; seen != nil {
				t.Fields[i] = *seen
			}
		}
		t.Oneofs = append(t.Oneofs, m.oneofs[name]...)
	}
}
