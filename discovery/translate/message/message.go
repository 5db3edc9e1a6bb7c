// Package message makes the small messages of Envoy's that the large ones are put together from:
// numbers, addresses, sources, metadata, matches.
package message

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// Many messages share these values. Do not write to them.
var (
	Yes        = wrapperspb.Bool(true)
	No         = wrapperspb.Bool(false)
	NoDuration = durationpb.New(0)
)

// Pack wraps a message, into the same bytes each time. Messages made here always marshal: a failure
// is a broken program.
func Pack(m proto.Message) *anypb.Any {
	out := &anypb.Any{}
	if err := anypb.MarshalFrom(out, m, proto.MarshalOptions{Deterministic: true}); err != nil {
		panic("translate: marshal " + string(m.ProtoReflect().Descriptor().FullName()) + ": " + err.Error())
	}
	return out
}

// Positive wraps a number that means nothing unless it is positive.
func Positive[N int32 | uint32](n N) *wrapperspb.UInt32Value {
	if n <= 0 {
		return nil
	}
	return wrapperspb.UInt32(uint32(n))
}

// Natural wraps a number unless it is negative.
func Natural(n *wrapperspb.Int32Value) *wrapperspb.UInt32Value {
	if n == nil || n.GetValue() < 0 {
		return nil
	}
	return wrapperspb.UInt32(uint32(n.GetValue()))
}

// Copied is a shallow copy: it shares with the original all that its fields point to.
func Copied[M proto.Message](m M) M {
	out := m.ProtoReflect().New()
	m.ProtoReflect().Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		out.Set(f, v)
		return true
	})
	out.SetUnknown(m.ProtoReflect().GetUnknown())
	return out.Interface().(M) //nolint:forcetypeassert // it is of m's type
}
