package kinds

import (
	"bytes"
	"fmt"
	"sync"

	"google.golang.org/protobuf/proto"

	"github.com/pgmesh/pgmesh/internal/wellformed"
)

// Spec is what a resource says. One that was received is kept as it came, and becomes a message when somebody asks for it first: nearly
// all that receiving a large mesh costs is making messages, and who lists names needs none.
//
// It is shared between stages and safe for concurrent use.
type Spec struct {
	once    sync.Once
	message proto.Message

	// What the message is made of: kind is nil if there never was anything but the message.
	kind    *Kind
	encoded []byte
}

// SpecOf holds a message: the kind's own, or *structpb.Struct for a kind without one.
func SpecOf(message proto.Message) *Spec { return &Spec{message: message} }

// Message is the kind's own message, or *structpb.Struct for a kind without one; nil if there is no spec. It must not be changed.
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

// Equal tells whether two specs say the same.
func (s *Spec) Equal(other *Spec) bool { return proto.Equal(s.Message(), other.Message()) }

// receive takes in a spec as it travels, or says why it cannot be decoded. It keeps a copy of the bytes.
func (s *Spec) receive(kind *Kind, encoded []byte) error {
	if shapes()[kind].Takes(encoded) {
		s.kind, s.encoded = kind, bytes.Clone(encoded)
		return nil
	}
	s.message = kind.NewSpec()
	return proto.Unmarshal(encoded, s.message) // which knows the reason
}

// shapes has the shape of the message of each kind.
var shapes = sync.OnceValue(func() map[*Kind]*wellformed.Shape {
	all := make(map[*Kind]*wellformed.Shape, len(registry))
	for _, k := range WithSecrets() {
		all[k] = wellformed.Of(k.NewSpec().ProtoReflect().Descriptor())
	}
	return all
})
