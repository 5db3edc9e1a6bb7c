package kinds

import (
	"bytes"
	"fmt"
	"sync"

	"google.golang.org/protobuf/proto"

	"github.com/pgmesh/pgmesh/internal/kit/wellformed"
)

// Spec is the spec of a resource. A received one keeps its encoded form until Message is first
// called: decoding is nearly all the cost of receiving a large mesh, and a caller that only lists
// names needs no message.
//
// Specs are shared between packages and safe for concurrent use.
type Spec struct {
	once    sync.Once
	message proto.Message

	// What the message is decoded from. Kind is nil if the Spec was made from a message.
	kind    *Kind
	encoded []byte
}

// SpecOf wraps a message: the kind's own, or *structpb.Struct for a kind without one.
func SpecOf(message proto.Message) *Spec { return &Spec{message: message} }

// Message returns the kind's own message, or *structpb.Struct for a kind without one; nil if there
// is no spec. It must not be changed.
func (s *Spec) Message() proto.Message {
	if s == nil {
		return nil
	}
	if s.kind != nil {
		s.once.Do(s.decode)
	}
	return s.message
}

func (s *Spec) decode() {
	message := s.kind.NewSpec()
	if err := proto.Unmarshal(s.encoded, message); err != nil {
		panic(fmt.Sprintf("a spec of a %s was found to be well formed and cannot be decoded: %v", s.kind, err))
	}
	s.message, s.encoded = message, nil
}

// Equal reports whether the two specs have equal messages.
func (s *Spec) Equal(other *Spec) bool { return proto.Equal(s.Message(), other.Message()) }

// setEncoded keeps a copy of an encoded spec for later decoding, or returns why it cannot be
// decoded.
func (s *Spec) setEncoded(kind *Kind, encoded []byte) error {
	if shapes()[kind].Takes(encoded) {
		s.kind, s.encoded = kind, bytes.Clone(encoded)
		return nil
	}
	s.message = kind.NewSpec()
	return proto.Unmarshal(encoded, s.message) // fails, and names the reason
}

// shapes has the shape of each kind's message.
var shapes = sync.OnceValue(func() map[*Kind]*wellformed.Shape {
	all := make(map[*Kind]*wellformed.Shape, len(registry))
	for _, k := range WithSecrets() {
		all[k] = wellformed.Of(k.NewSpec().ProtoReflect().Descriptor())
	}
	return all
})
