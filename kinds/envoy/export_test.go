package envoy

import "google.golang.org/protobuf/proto"

// FieldRules returns what fieldRules finds wrong with a message.
func FieldRules(m proto.Message) []Problem {
	c := &checker{}
	c.fieldRules(place{message: m.ProtoReflect()})
	return c.problems
}
