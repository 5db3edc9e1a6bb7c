package openapi

import (
	"maps"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/kinds/jsonschema"
)

// Schemas is the folder beside the document that the schemas of the kinds are served in.
const Schemas = "schemas/"

// resourceName is the message that stands for a resource of any kind.
const resourceName = "Resource"

// resource describes a resource by the schemas of the kinds.
func (w *writer) resource() {
	if w.messages[resourceName] != nil {
		return
	}
	var all []object
	for _, k := range kinds.All() {
		all = append(all, object{"$ref": Schemas + jsonschema.Path(k, k.Versions[0])})
	}
	w.messages[resourceName] = object{"description": "A resource of any kind.", "anyOf": all}
}

// reference refers to a message, as protobuf writes it in JSON.
func (w *writer) reference(m protoreflect.MessageDescriptor) object {
	if known := wellKnown(m); known != nil {
		return known
	}
	name := string(m.Name())
	if w.messages[name] == nil {
		properties := object{}
		w.messages[name] = describe(object{"type": "object", "properties": properties}, m) // it may refer to itself
		for i := range m.Fields().Len() {
			f := m.Fields().Get(i)
			properties[f.JSONName()] = w.field(f)
		}
	}
	return object{"$ref": "#/components/schemas/" + name}
}

// field describes a field, with what is said of it. Beside a reference, too: OpenAPI 3.1 allows it.
func (w *writer) field(f protoreflect.FieldDescriptor) object {
	switch {
	case f.IsMap():
		return describe(object{"type": "object", "additionalProperties": w.value(f.MapValue())}, f)
	case f.IsList():
		return describe(object{"type": "array", "items": w.value(f)}, f)
	}
	return describe(maps.Clone(w.value(f)), f)
}

// value describes a single value of a field.
func (w *writer) value(f protoreflect.FieldDescriptor) object {
	switch f.Kind() {
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return w.reference(f.Message())
	case protoreflect.EnumKind:
		var names []string
		for i := range f.Enum().Values().Len() {
			names = append(names, string(f.Enum().Values().Get(i).Name()))
		}
		return object{"type": "string", "enum": names}
	case protoreflect.BoolKind:
		return object{"type": "boolean"}
	case protoreflect.StringKind:
		return object{"type": "string"}
	case protoreflect.BytesKind:
		return object{"type": "string", "contentEncoding": "base64"}
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		return object{"type": "number"}
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Uint64Kind, protoreflect.Fixed64Kind, protoreflect.Sfixed64Kind:
		return object{"type": "string", "pattern": "^-?[0-9]+$", "description": "A whole number, as text: JavaScript has no numbers as large."}
	default:
		return object{"type": "integer"}
	}
}

// wellKnown describes the messages that protobuf writes in a form of their own, nil for others.
func wellKnown(m protoreflect.MessageDescriptor) object {
	switch m.FullName() {
	case "google.protobuf.Timestamp":
		return object{"type": "string", "format": "date-time"}
	case "google.protobuf.Duration":
		return object{"type": "string", "pattern": `^-?[0-9]+(\.[0-9]+)?s$`}
	case "google.protobuf.Struct":
		return object{"type": "object"}
	case "google.protobuf.Value":
		return object{}
	case "google.protobuf.Any":
		return object{"type": "object", "properties": object{"@type": object{"type": "string"}}}
	}
	return nil
}
