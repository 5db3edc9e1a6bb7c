package envoy

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/pgmesh/pgmesh/internal/kit/nearest"
	"github.com/pgmesh/pgmesh/kinds/schema"
)

// decode reads a JSON object into a message and reports whether it could. It reports unknown fields
// and enum names but skips them. Anything else that is wrong leaves the message unread.
func (c *checker) decode(path string, tree map[string]any, into proto.Message) (sound bool) {
	before := c.fatal
	c.object(path, tree, into.ProtoReflect().Descriptor())
	if c.fatal > before {
		return false
	}
	if err := unmarshal(tree, into); err != nil {
		c.invalid(path, protojsonReason(err), "")
		return false
	}
	return true
}

// unmarshal ignores fields that the message does not have.
func unmarshal(tree any, into proto.Message) error {
	text, err := json.Marshal(tree)
	if err != nil {
		return err
	}
	return protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(text, into)
}

// protojsonReason strips from an error of protojson what is not about the value.
func protojsonReason(err error) string {
	text := strings.ReplaceAll(err.Error(), "\u00a0", " ")
	text = strings.TrimPrefix(text, "proto: ")
	if strings.HasPrefix(text, "(line ") {
		_, text, _ = strings.Cut(text, "): ")
	}
	return text
}

func (c *checker) object(path string, tree map[string]any, d protoreflect.MessageDescriptor) {
	set := map[protoreflect.FieldDescriptor]string{}
	for _, key := range slices.Sorted(maps.Keys(tree)) {
		at, value := schema.Member(path, key), tree[key]
		field := fieldOf(d, key)
		switch {
		case field == nil:
			c.unknownField(at, key, d)
		case value == nil: // null is absent
		case set[field] != "":
			c.invalid(path, fmt.Sprintf("only one of %s, %s may be set", set[field], key), "they are two spellings of one field")
		default:
			set[field] = key
			c.field(at, value, field)
		}
	}
	c.oneofs(path, d, set)
}

// fieldOf finds a field by its JSON name or its proto name.
func fieldOf(d protoreflect.MessageDescriptor, key string) protoreflect.FieldDescriptor {
	if f := d.Fields().ByJSONName(key); f != nil {
		return f
	}
	return d.Fields().ByTextName(key)
}

func (c *checker) unknownField(path, key string, d protoreflect.MessageDescriptor) {
	var known []string
	for i := range d.Fields().Len() {
		known = append(known, d.Fields().Get(i).TextName())
	}
	hint := "a " + string(d.FullName()) + " has no fields"
	if len(known) > 0 {
		hint = nearest.Hint(key, known, "fields of a "+string(d.FullName())+": ")
	}
	c.unknown(path, `unknown field "`+key+`"`, hint)
}

func (c *checker) oneofs(path string, d protoreflect.MessageDescriptor, set map[protoreflect.FieldDescriptor]string) {
	for i := range d.Oneofs().Len() {
		var both []string
		fields := d.Oneofs().Get(i).Fields()
		for k := range fields.Len() {
			if key, ok := set[fields.Get(k)]; ok {
				both = append(both, key)
			}
		}
		if len(both) > 1 {
			c.invalid(path, "only one of "+strings.Join(both, ", ")+" may be set", "")
		}
	}
}

func (c *checker) field(path string, value any, f protoreflect.FieldDescriptor) {
	switch {
	case f.IsMap():
		members, ok := value.(map[string]any)
		if !ok {
			c.invalid(path, "expected an object", "")
			return
		}
		for _, key := range slices.Sorted(maps.Keys(members)) {
			c.single(schema.Member(path, key), members[key], f.MapValue(), func(v any) any { return map[string]any{key: v} }, f)
		}
	case f.IsList():
		items, ok := value.([]any)
		if !ok {
			c.invalid(path, "expected a list", "")
			return
		}
		for i, item := range items {
			c.single(schema.Item(path, i), item, f, func(v any) any { return []any{v} }, f)
		}
	default:
		c.single(path, value, f, func(v any) any { return v }, f)
	}
}

// single checks one value of a field. Around builds a value of the whole field from it.
func (c *checker) single(path string, value any, f protoreflect.FieldDescriptor, around func(any) any, whole protoreflect.FieldDescriptor) {
	message := f.Message()
	switch {
	case message != nil && message.FullName() == "google.protobuf.Any":
		c.packedAny(path, value)
	case message != nil && message.ParentFile().Package() != "google.protobuf":
		members, ok := value.(map[string]any)
		if !ok {
			c.invalid(path, "expected an object", "")
			return
		}
		c.object(path, members, message)
	default:
		c.leaf(path, value, f, around, whole)
	}
}

// leaf lets protobuf check a value that has no parts.
func (c *checker) leaf(path string, value any, f protoreflect.FieldDescriptor, around func(any) any, whole protoreflect.FieldDescriptor) {
	text, err := json.Marshal(map[string]any{whole.TextName(): around(value)})
	if err == nil {
		err = protojson.Unmarshal(text, dynamicpb.NewMessage(whole.ContainingMessage()))
	}
	if err == nil {
		return
	}
	if f.Kind() != protoreflect.EnumKind {
		c.invalid(path, protojsonReason(err), "")
		return
	}
	var known []string
	for i := range f.Enum().Values().Len() {
		known = append(known, string(f.Enum().Values().Get(i).Name()))
	}
	if _, isName := value.(string); !isName {
		c.invalid(path, protojsonReason(err), "")
		return
	}
	c.unknown(path, fmt.Sprintf("%v is none of the values", value), nearest.Hint(fmt.Sprint(value), known, "one of "))
}

// packedAny checks the JSON of an Any, which names its type.
func (c *checker) packedAny(path string, value any) {
	members, ok := value.(map[string]any)
	if !ok {
		c.invalid(path, "expected an object", "")
		return
	}
	url, _ := members["@type"].(string)
	if url == "" {
		c.invalid(schema.Member(path, "@type"), "required field is missing", "it is type.googleapis.com/ and the name of Envoy's message")
		return
	}
	found := c.resolve(schema.Member(path, "@type"), url)
	if found == nil {
		return
	}
	rest := maps.Clone(members)
	delete(rest, "@type")
	switch d := found.Descriptor(); {
	case isTypedStruct(d):
		c.typedStruct(path, rest, d)
	case d.ParentFile().Package() == "google.protobuf":
		if err := unmarshal(rest["value"], found.New().Interface()); err != nil && d.FullName() != "google.protobuf.Empty" {
			c.invalid(schema.Member(path, "value"), protojsonReason(err), "")
		}
	default:
		c.object(path, rest, d)
	}
}

// typedStruct checks a struct as a message of the type that it names.
func (c *checker) typedStruct(path string, members map[string]any, d protoreflect.MessageDescriptor) {
	c.object(path, members, d)
	key := "type_url"
	url, ok := members[key].(string)
	if !ok {
		key = "typeUrl"
		url, _ = members[key].(string)
	}
	if found := c.resolve(schema.Member(path, key), url); found != nil {
		value, _ := members["value"].(map[string]any)
		c.object(schema.Member(path, "value"), value, found.Descriptor())
	}
}

func isTypedStruct(d protoreflect.MessageDescriptor) bool {
	return d.FullName() == "udpa.type.v1.TypedStruct" || d.FullName() == "xds.type.v3.TypedStruct"
}

// resolve finds a message type, and reports why a type cannot be used.
func (c *checker) resolve(path, url string) protoreflect.MessageType {
	name := url[strings.LastIndexByte(url, '/')+1:]
	found, err := protoregistry.GlobalTypes.FindMessageByName(protoreflect.FullName(name))
	switch {
	case err == nil && name != url && isStock(found.Descriptor()):
		return found
	case err == nil && name == url:
		c.invalid(path, `"`+url+`" is not a type URL`, "write type.googleapis.com/"+name)
	case strings.Contains(name, ".v2.") || strings.Contains(name, ".v2alpha."):
		c.invalid(path, `Envoy no longer knows "`+name+`"`, "name the type of its API v3")
	default:
		c.invalid(path, `a stock Envoy has no "`+name+`"`, nearest.Hint(name, stockTypes(), "see which extensions Envoy has in its documentation; the list is long, beginning with "))
	}
	return nil
}

// stockTypes lists the types to suggest from. If none is near, the hint shows the first few, so
// these are in the order of stock.txt.
func stockTypes() []string {
	var names []string
	for _, line := range stockLines() {
		_, name, _ := strings.Cut(line, " ")
		names = append(names, name)
	}
	return names
}
