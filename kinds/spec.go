package kinds

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/structpb"
	// The messages named by the registry.
	_ "istio.io/api/extensions/v1alpha1"
	_ "istio.io/api/mesh/v1alpha1"
	_ "istio.io/api/networking/v1alpha3"
	_ "istio.io/api/networking/v1beta1"
	_ "istio.io/api/security/v1beta1"
	_ "istio.io/api/telemetry/v1alpha1"
)

// NewSpec returns an empty spec of the kind: its own message, or a Struct for a kind without one.
// It panics if the registry names a message that is not linked in, which a test rules out.
func (k *Kind) NewSpec() proto.Message {
	if k.Message == "" {
		return &structpb.Struct{}
	}
	t, err := protoregistry.GlobalTypes.FindMessageByName(k.Message)
	if err != nil {
		panic(fmt.Sprintf("the registry of kinds names the message %s of %s, which is not linked in: %v", k.Message, k, err))
	}
	return t.New().Interface()
}

// message returns the name of the spec's message on the wire.
func (k *Kind) message() protoreflect.FullName {
	if k.Message == "" {
		return structName
	}
	return k.Message
}

// Decode reads a spec from JSON into the kind's message. Like Parse it takes more than the normal
// form: a row written with SQL may have "1m" for a duration. If the spec breaks its structure the
// error is an Errors.
func (k *Kind) Decode(spec []byte) (proto.Message, error) {
	message := k.NewSpec()
	// Specs in normal form decode directly and skip the walk below. A Struct takes anything, so it
	// must be walked.
	if k.Message != "" && protojson.Unmarshal(spec, message) == nil {
		return message, nil
	}
	tree, err := readTree(spec)
	if err != nil {
		return nil, fmt.Errorf("decode the spec of a %s: %w", k, err)
	}
	normal, violations := normalise(k, tree)
	if len(violations) > 0 {
		return nil, Errors(violations)
	}
	return k.messageOf(normal)
}

// messageOf makes the kind's message of a spec in normal form.
func (k *Kind) messageOf(normal any) (proto.Message, error) {
	if fields, ok := normal.(map[string]any); ok && k.Message == "" {
		message, err := structOf(fields)
		if err != nil {
			return nil, fmt.Errorf("decode the spec of a %s: %w", k, err)
		}
		return message, nil
	}
	spec, err := compacted(normal)
	if err != nil {
		return nil, fmt.Errorf("encode the spec of a %s: %w", k, err)
	}
	return k.decodeNormal(spec)
}

// decodeNormal decodes a spec in normal form.
func (k *Kind) decodeNormal(spec []byte) (proto.Message, error) {
	message := k.NewSpec()
	if err := protojson.Unmarshal(spec, message); err != nil {
		return nil, fmt.Errorf("decode the spec of a %s: %w", k, err)
	}
	return message, nil
}
