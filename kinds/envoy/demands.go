package envoy

import (
	"strconv"
	"strings"

	"github.com/envoyproxy/protoc-gen-validate/validate"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

const required = "value is required"

// demands checks a message, and those that are fields of it, by the rules that Envoy's API has beside its fields.
//
// They are read from the descriptors. Each message has a method, too, that was generated from them and that finds the same, as a test makes sure. But who
// calls it of whatever message there is has the methods of all of them linked, which are twelve megabytes of a program.
func (c *checking) demands(p place) {
	d := p.message.Descriptor()
	for i := range d.Fields().Len() {
		if f := d.Fields().Get(i); f.ContainingOneof() == nil {
			c.demandsOf(p, f)
		}
	}
	for i := range d.Oneofs().Len() {
		o := d.Oneofs().Get(i)
		switch f := p.message.WhichOneof(o); {
		case f != nil:
			c.demandsOf(p, f)
		case !p.partial && proto.GetExtension(o.Options(), validate.E_Required).(bool):
			c.invalid(p.path, required+": one of "+oneofFields(o), "")
		}
	}
}

func oneofFields(o protoreflect.OneofDescriptor) string {
	var names []string
	for i := range o.Fields().Len() {
		names = append(names, o.Fields().Get(i).TextName())
	}
	return strings.Join(names, ", ")
}

func (c *checking) demandsOf(p place, f protoreflect.FieldDescriptor) {
	given := p.message.Has(f)
	rules, _ := proto.GetExtension(f.Options(), validate.E_Rules).(*validate.FieldRules)
	if !given && (p.partial || rules == nil) {
		return
	}
	value := p.message.Get(f)
	switch {
	case f.IsMap():
		c.demandsOfMap(p, f, rules.GetMap(), value.Map())
	case f.IsList():
		c.demandsOfList(p, f, rules.GetRepeated(), value.List())
	case f.Message() != nil && given:
		c.demandsOfMessage(p, f, "", rules, value.Message())
	case f.Message() != nil:
		c.broken(func() place { return p.whole(f) }, missing(rules))
	default:
		c.broken(func() place { return p.whole(f) }, scalar(rules, f, value)...)
	}
}

// broken tells of the rules that something breaks. Its place is asked for only then: to find it takes longer than to check.
func (c *checking) broken(p func() place, reasons ...string) {
	for _, reason := range reasons {
		if reason != "" {
			c.invalid(p().path, reason, "")
		}
	}
}

func (c *checking) demandsOfList(p place, f protoreflect.FieldDescriptor, rules *validate.RepeatedRules, list protoreflect.List) {
	c.broken(func() place { return p.whole(f) }, number(list.Len(), "item", rules.GetMinItems(), rules.GetMaxItems()))
	seen := map[any]bool{}
	for i := range list.Len() {
		value, item := list.Get(i), strconv.Itoa(i)
		if f.Message() != nil {
			c.demandsOfMessage(p, f, item, rules.GetItems(), value.Message())
			continue
		}
		if rules.GetUnique() {
			if seen[value.Interface()] {
				c.broken(func() place { return p.below(f, item) }, "repeated value must contain unique items")
			}
			seen[value.Interface()] = true
		}
		c.broken(func() place { return p.below(f, item) }, scalar(rules.GetItems(), f, value)...)
	}
}

// demandsOfMap has rules for keys alone: the API has none for values that are no messages.
func (c *checking) demandsOfMap(p place, f protoreflect.FieldDescriptor, rules *validate.MapRules, m protoreflect.Map) {
	c.broken(func() place { return p.whole(f) }, number(m.Len(), "pair", rules.GetMinPairs(), rules.GetMaxPairs()))
	if f.MapKey().Kind() != protoreflect.StringKind {
		return
	}
	for _, key := range sortedKeys(m) {
		at := protoreflect.ValueOfString(key)
		c.broken(func() place { return p.below(f, key) }, scalar(rules.GetKeys(), f.MapKey(), at)...)
		if f.MapValue().Message() != nil {
			c.demandsOfMessage(p, f, key, rules.GetValues(), m.Get(at.MapKey()).Message())
		}
	}
}

// demandsOfMessage checks a message that is there. Numbers and durations are messages, too.
func (c *checking) demandsOfMessage(p place, f protoreflect.FieldDescriptor, item string, rules *validate.FieldRules, m protoreflect.Message) {
	switch inner := m.Interface().(type) {
	case *durationpb.Duration:
		if rules.GetDuration() != nil {
			c.broken(func() place { return p.below(f, item) }, duration(rules.GetDuration(), inner))
		}
	case *wrapperspb.DoubleValue, *wrapperspb.FloatValue, *wrapperspb.Int64Value, *wrapperspb.UInt64Value, *wrapperspb.Int32Value,
		*wrapperspb.UInt32Value, *wrapperspb.BoolValue, *wrapperspb.StringValue, *wrapperspb.BytesValue:
		wrapped := m.Descriptor().Fields().Get(0)
		c.broken(func() place { return p.below(f, item) }, scalar(rules, wrapped, m.Get(wrapped))...)
	default:
		// The API has one message with the rules of an Any though it is none, and Envoy does not look into it.
		if !rules.GetMessage().GetSkip() && rules.GetAny() == nil {
			c.demands(p.below(f, item))
		}
	}
}

// missing is what is wrong with a message that is not there.
func missing(rules *validate.FieldRules) string {
	switch {
	case rules.GetDuration().GetRequired(), rules.GetAny().GetRequired():
		return required
	case rules.GetMessage().GetRequired() && rules.GetType() != nil:
		return required + " and must not be nil."
	case rules.GetMessage().GetRequired():
		return required
	}
	return ""
}
