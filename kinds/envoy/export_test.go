package envoy

import "google.golang.org/protobuf/proto"

// Demands tells what the rules of its API find wrong with a message.
func Demands(m proto.Message) []Problem {
	c := &checking{}
	c.demands(place{message: m.ProtoReflect()})
	return c.problems
}
