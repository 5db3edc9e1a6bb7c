package main

import (
	"fmt"
	"math"
	"slices"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/pgmesh/pgmesh/kinds/schema"
)

// messages turns protobuf messages into types. The CRDs may use a message in several places with
// different constraints. The table has one type for all, with the constraints that hold in each
// place.
type messages struct {
	types    map[string]*schema.Type
	observed map[string]map[string]*schema.Field // by message and field
	oneofs   map[string][][]string               // by message, the oneofs that all places agree on
}

func newMessages(types map[string]*schema.Type) *messages {
	return &messages{types, map[string]map[string]*schema.Field{}, map[string][][]string{}}
}

// add adds the message and all messages that it refers to, and observes the constraints of the CRD,
// if there is one.
func (m *messages) add(name protoreflect.FullName, s *openAPI) error {
	descriptor, err := protoregistry.GlobalFiles.FindDescriptorByName(name)
	if err != nil {
		return err
	}
	message := descriptor.(protoreflect.MessageDescriptor)
	if err := m.addMessage(message); err != nil {
		return err
	}
	if s != nil {
		m.observe(message, s)
	}
	return nil
}

func (m *messages) addMessage(message protoreflect.MessageDescriptor) error {
	name := string(message.FullName())
	if m.types[name] != nil {
		return nil
	}
	t := &schema.Type{Fields: []schema.Field{}}
	m.types[name] = t
	for i := range message.Fields().Len() {
		descriptor := message.Fields().Get(i)
		f, err := m.field(descriptor)
		if err != nil {
			return fmt.Errorf("%s: %w", descriptor.FullName(), err)
		}
		t.Fields = append(t.Fields, f)
	}
	for i := range message.Oneofs().Len() {
		if oneof := message.Oneofs().Get(i); !oneof.IsSynthetic() && oneof.Fields().Len() > 1 {
			t.Oneofs = append(t.Oneofs, memberNames(oneof))
		}
	}
	return nil
}

func memberNames(oneof protoreflect.OneofDescriptor) []string {
	names := make([]string, oneof.Fields().Len())
	for i := range names {
		names[i] = oneof.Fields().Get(i).JSONName()
	}
	return names
}

func (m *messages) field(d protoreflect.FieldDescriptor) (schema.Field, error) {
	f := schema.Field{Name: d.JSONName(), Repeated: d.IsList(), Map: d.IsMap(), Required: annotatedRequired(d)}
	if d.TextName() != d.JSONName() {
		f.Aliases = []string{d.TextName()}
	}
	value := d
	if d.IsMap() {
		value = d.MapValue()
		if key := d.MapKey().Kind(); key != protoreflect.StringKind {
			f.KeyType = key.String()
		}
	}
	return f, m.setType(&f, value)
}

func annotatedRequired(d protoreflect.FieldDescriptor) bool {
	behaviors, _ := proto.GetExtension(d.Options(), annotations.E_FieldBehavior).([]annotations.FieldBehavior)
	return slices.Contains(behaviors, annotations.FieldBehavior_REQUIRED)
}

func (m *messages) setType(f *schema.Field, d protoreflect.FieldDescriptor) error {
	switch d.Kind() {
	case protoreflect.MessageKind:
		return m.setMessage(f, d.Message())
	case protoreflect.EnumKind:
		setEnum(f, d.Enum())
		return nil
	}
	return setScalar(f, d.Kind().String())
}

func (m *messages) setMessage(f *schema.Field, message protoreflect.MessageDescriptor) error {
	switch message.FullName() {
	case "google.protobuf.Struct":
		f.Type = schema.Struct
		return nil
	case "google.protobuf.Duration":
		f.Type = schema.Duration
		return nil
	case "google.protobuf.BoolValue", "google.protobuf.DoubleValue", "google.protobuf.StringValue",
		"google.protobuf.Int32Value", "google.protobuf.Int64Value", "google.protobuf.UInt32Value":
		return setScalar(f, message.Fields().ByName("value").Kind().String())
	}
	if message.ParentFile().Package() == "google.protobuf" {
		return fmt.Errorf("a %s is not supported", message.FullName())
	}
	f.Type, f.TypeRef = schema.Message, string(message.FullName())
	return m.addMessage(message)
}

func setEnum(f *schema.Field, enum protoreflect.EnumDescriptor) {
	f.Type, f.TypeRef = schema.Enum, string(enum.FullName())
	for i := range enum.Values().Len() {
		f.Enum = append(f.Enum, string(enum.Values().Get(i).Name()))
		f.Numbers = append(f.Numbers, int(enum.Values().Get(i).Number()))
	}
}

func setScalar(f *schema.Field, kind string) error {
	f.Type = kind
	switch kind {
	case schema.Bool, schema.String, schema.Bytes, schema.Double, schema.Int64:
	case schema.Int32:
		f.Min, f.Max = number[float64](math.MinInt32), number[float64](math.MaxInt32)
	case schema.Uint32:
		f.Min, f.Max = number[float64](0), number[float64](math.MaxUint32)
	case schema.Uint64:
		f.Min = number[float64](0)
	case "float":
		f.Type = schema.Double
	default:
		return fmt.Errorf("a %s is not supported", kind)
	}
	return nil
}
