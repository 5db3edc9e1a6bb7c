package envoy

import (
	"strconv"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pgmesh/pgmesh/kinds/schema"
)

// Check returns why Envoy would refuse a message. It looks into packed messages, too.
func Check(m proto.Message) []Problem {
	c := &checker{}
	c.rules(place{message: m.ProtoReflect()})
	return c.problems
}

// place is a message within the checked one.
type place struct {
	path    string
	tree    any // the JSON that it was read from, if known, for the spelling of names
	message protoreflect.Message
	partial bool // it will be merged into another, so required fields may be absent
}

// whole returns the place of a field with all of its items. It sets no message.
func (p place) whole(f protoreflect.FieldDescriptor) place {
	name, tree := f.TextName(), any(nil)
	if members, ok := p.tree.(map[string]any); ok {
		for _, spelling := range []string{f.TextName(), f.JSONName()} {
			if value, given := members[spelling]; given {
				name, tree = spelling, value
			}
		}
	}
	return place{path: schema.Member(p.path, name), tree: tree, partial: p.partial}
}

// below returns the place of a field, or of one of its items. Item is its key or index.
func (p place) below(f protoreflect.FieldDescriptor, item string) place {
	sub := p.whole(f)
	sub.partial = p.partial && item == ""
	value := p.message.Get(f)
	switch {
	case f.IsMap():
		members, _ := sub.tree.(map[string]any)
		sub.path, sub.tree, sub.partial = schema.Member(sub.path, item), members[item], false
		value = value.Map().Get(protoreflect.ValueOfString(item).MapKey())
	case f.IsList() && item != "":
		i, _ := strconv.Atoi(item)
		sub.path = schema.Item(sub.path, i)
		items, _ := sub.tree.([]any)
		sub.tree = nil
		if i < len(items) {
			sub.tree = items[i]
		}
		value = value.List().Get(i)
	}
	if f.IsMap() && f.MapValue().Message() != nil || !f.IsMap() && f.Message() != nil && (!f.IsList() || item != "") {
		sub.message = value.Message()
	}
	return sub
}

// rules checks a message by the field rules of its API and by the cross-checks. The field rules
// stop at packed messages, which descend checks in turn.
func (c *checker) rules(p place) {
	c.fieldRules(p)
	c.within(p)
}

// within checks each message in a message.
func (c *checker) within(p place) {
	c.crossChecks(p)
	fields := p.message.Descriptor().Fields()
	for i := range fields.Len() { // in the order of the API, for a stable order of problems
		f := fields.Get(i)
		if !p.message.Has(f) || f.Message() == nil {
			continue
		}
		switch {
		case f.IsMap():
			if f.MapValue().Message() == nil || f.MapKey().Kind() != protoreflect.StringKind {
				continue
			}
			for _, key := range sortedKeys(p.message.Get(f).Map()) {
				c.descend(p.below(f, key))
			}
		case f.IsList():
			for i := range p.message.Get(f).List().Len() {
				c.descend(p.below(f, strconv.Itoa(i)))
			}
		default:
			c.descend(p.below(f, ""))
		}
	}
}

// descend checks a message, or the one packed into it.
func (c *checker) descend(p place) {
	packed, ok := p.message.Interface().(*anypb.Any)
	if !ok {
		c.within(p)
		return
	}
	inner, err := Unpack(packed)
	if err != nil {
		c.invalid(p.path, err.Error(), "")
		return
	}
	if _, isStruct := structOf(packed); isStruct {
		members, _ := p.tree.(map[string]any)
		p.path, p.tree = schema.Member(p.path, "value"), members["value"]
	}
	p.message = inner.ProtoReflect()
	c.rules(p)
}

// Unpack returns the packed message. For a struct that names its type, it returns the message of
// that type.
func Unpack(packed *anypb.Any) (proto.Message, error) {
	inner, err := packed.UnmarshalNew()
	if err != nil {
		return nil, err
	}
	s, isStruct := structOf(packed)
	if !isStruct {
		return inner, nil
	}
	found, err := protoregistry.GlobalTypes.FindMessageByURL(s.GetTypeUrl())
	if err != nil {
		return nil, err
	}
	text, err := protojson.Marshal(s.GetValue())
	if err != nil {
		return nil, err
	}
	message := found.New().Interface()
	return message, protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(text, message)
}

// typedStruct is implemented by the two messages of structs that name their type.
type typedStruct interface {
	GetTypeUrl() string
	GetValue() *structpb.Struct
}

func structOf(packed *anypb.Any) (typedStruct, bool) {
	if name := packed.MessageName(); name != "udpa.type.v1.TypedStruct" && name != "xds.type.v3.TypedStruct" {
		return nil, false
	}
	inner, err := packed.UnmarshalNew()
	if err != nil {
		return nil, false
	}
	s, ok := inner.(typedStruct)
	return s, ok
}
