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

// fieldRules checks a message and the messages in its fields by the validation rules of Envoy's
// API.
//
// It reads the rules from the descriptors. The generated ValidateAll methods find the same, which a
// test verifies, but calling them on arbitrary messages would link the methods of all messages:
// twelve megabytes of the program.
func (c *checker) fieldRules(p place) {
	d := p.message.Descriptor()
	for i := range d.Fields().Len() {
		if f := d.Fields().Get(i); f.ContainingOneof() == nil {
			c.fieldRulesOf(p, f)
		}
	}
	for i := range d.Oneofs().Len() {
		o := d.Oneofs().Get(i)
		switch f := p.message.WhichOneof(o); {
		case f != nil:
			c.fieldRulesOf(p, f)
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

func (c *checker) fieldRulesOf(p place, f protoreflect.FieldDescriptor) {
	given := p.message.Has(f)
	rules, _ := proto.GetExtension(f.Options(), validate.E_Rules).(*validate.FieldRules)
	if !given && (p.partial || rules == nil) {
		return
	}
	value := p.message.Get(f)
	switch {
	case f.IsMap():
		c.mapRules(p, f, rules.GetMap(), value.Map())
	case f.IsList():
		c.listRules(p, f, rules.GetRepeated(), value.List())
	case f.Message() != nil && given:
		c.messageRules(p, f, "", rules, value.Message())
	case f.Message() != nil:
		c.report(func() place { return p.whole(f) }, missing(rules))
	default:
		c.report(func() place { return p.whole(f) }, scalar(rules, f, value)...)
	}
}

// report reports the reasons that are not empty. It asks for the place only then: finding it takes
// longer than the check.
func (c *checker) report(p func() place, reasons ...string) {
	for _, reason := range reasons {
		if reason != "" {
			c.invalid(p().path, reason, "")
		}
	}
}

func (c *checker) listRules(p place, f protoreflect.FieldDescriptor, rules *validate.RepeatedRules, list protoreflect.List) {
	c.report(func() place { return p.whole(f) }, number(list.Len(), "item", rules.GetMinItems(), rules.GetMaxItems()))
	seen := map[any]bool{}
	for i := range list.Len() {
		value, item := list.Get(i), strconv.Itoa(i)
		if f.Message() != nil {
			c.messageRules(p, f, item, rules.GetItems(), value.Message())
			continue
		}
		if rules.GetUnique() {
			if seen[value.Interface()] {
				c.report(func() place { return p.below(f, item) }, "repeated value must contain unique items")
			}
			seen[value.Interface()] = true
		}
		c.report(func() place { return p.below(f, item) }, scalar(rules.GetItems(), f, value)...)
	}
}

// mapRules checks keys only: the API has no rules for map values that are not messages.
func (c *checker) mapRules(p place, f protoreflect.FieldDescriptor, rules *validate.MapRules, m protoreflect.Map) {
	c.report(func() place { return p.whole(f) }, number(m.Len(), "pair", rules.GetMinPairs(), rules.GetMaxPairs()))
	if f.MapKey().Kind() != protoreflect.StringKind {
		return
	}
	for _, key := range sortedKeys(m) {
		at := protoreflect.ValueOfString(key)
		c.report(func() place { return p.below(f, key) }, scalar(rules.GetKeys(), f.MapKey(), at)...)
		if f.MapValue().Message() != nil {
			c.messageRules(p, f, key, rules.GetValues(), m.Get(at.MapKey()).Message())
		}
	}
}

// messageRules checks a message that is set. Wrapped numbers and durations are messages, too.
func (c *checker) messageRules(p place, f protoreflect.FieldDescriptor, item string, rules *validate.FieldRules, m protoreflect.Message) {
	switch inner := m.Interface().(type) {
	case *durationpb.Duration:
		if rules.GetDuration() != nil {
			c.report(func() place { return p.below(f, item) }, duration(rules.GetDuration(), inner))
		}
	case *wrapperspb.DoubleValue, *wrapperspb.FloatValue, *wrapperspb.Int64Value, *wrapperspb.UInt64Value, *wrapperspb.Int32Value,
		*wrapperspb.UInt32Value, *wrapperspb.BoolValue, *wrapperspb.StringValue, *wrapperspb.BytesValue:
		wrapped := m.Descriptor().Fields().Get(0)
		c.report(func() place { return p.below(f, item) }, scalar(rules, wrapped, m.Get(wrapped))...)
	default:
		// One message of the API has rules for an Any on a field that is none. Envoy ignores them.
		if !rules.GetMessage().GetSkip() && rules.GetAny() == nil {
			c.fieldRules(p.below(f, item))
		}
	}
}

// missing explains why an absent message is wrong.
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
