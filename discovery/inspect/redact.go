package inspect

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/cncf/xds/go/udpa/annotations"
	wasmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/wasm/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/push"
)

// redacted replaces secret texts and bytes, as in Envoy's own dump.
const redacted = "[redacted]"

// quoted matches a string as Envoy quotes it.
var quoted = regexp.MustCompile(`"(?:[^"\\]|\\.)*("|$)`)

// reason is why a proxy refuses something. Envoy may quote all that it refuses, so quotes are
// removed from the reasons for secrets, and for what may have one in it.
func reason(typeURL, text string) string {
	if typeURL != push.SecretType && !strings.Contains(text, mesh.PullSecretVariable) {
		return text
	}
	return quoted.ReplaceAllLiteralString(text, `"`+redacted+`"`)
}

// redact removes from a message what Envoy's API marks as sensitive, such as private keys, even in
// packed messages.
func redact(m protoreflect.Message) error {
	switch packed := m.Interface().(type) {
	case *anypb.Any:
		return redactPacked(packed)
	case typedStruct:
		return redactTyped(packed)
	case *wasmv3.EnvironmentVariables: // which Envoy's API marks nothing of
		if packed.GetKeyValues()[mesh.PullSecretVariable] != "" {
			packed.KeyValues[mesh.PullSecretVariable] = redacted
		}
	}
	return eachField(m, func(field protoreflect.FieldDescriptor, v protoreflect.Value) (protoreflect.Value, error) {
		if sensitive(field) {
			return blanked(field, v), nil
		}
		return v, inMessages(field, v, redact)
	})
}

// eachField replaces each field that is set. It clears fields whose new value is nothing.
func eachField(m protoreflect.Message, become func(protoreflect.FieldDescriptor, protoreflect.Value) (protoreflect.Value, error)) error {
	var failed error
	m.Range(func(field protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		var now protoreflect.Value
		if now, failed = become(field, v); failed != nil {
			return false
		}
		if now.IsValid() {
			m.Set(field, now)
		} else {
			m.Clear(field)
		}
		return true
	})
	return failed
}

// inMessages calls a function for each message in a field.
func inMessages(field protoreflect.FieldDescriptor, v protoreflect.Value, do func(protoreflect.Message) error) (err error) {
	switch {
	case field.IsMap():
		if field.MapValue().Message() != nil {
			v.Map().Range(func(_ protoreflect.MapKey, element protoreflect.Value) bool {
				err = do(element.Message())
				return err == nil
			})
		}
	case field.Message() == nil:
	case field.IsList():
		for i := 0; i < v.List().Len() && err == nil; i++ {
			err = do(v.List().Get(i).Message())
		}
	default:
		err = do(v.Message())
	}
	return err
}

func sensitive(field protoreflect.FieldDescriptor) bool {
	marked, _ := proto.GetExtension(field.Options(), annotations.E_Sensitive).(bool)
	return marked
}

// blanked is the shown value of a sensitive field: it tells only that there is one.
func blanked(field protoreflect.FieldDescriptor, v protoreflect.Value) protoreflect.Value {
	switch {
	case field.IsMap():
		return protoreflect.Value{}
	case field.IsList():
		for i := range v.List().Len() {
			if one := blankedOne(field, v.List().Get(i)); one.IsValid() {
				v.List().Set(i, one)
			} else {
				return protoreflect.Value{}
			}
		}
		return v
	}
	return blankedOne(field, v)
}

func blankedOne(field protoreflect.FieldDescriptor, v protoreflect.Value) protoreflect.Value {
	switch field.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(redacted)
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte(redacted))
	case protoreflect.MessageKind:
		if _, packed := v.Message().Interface().(*anypb.Any); packed {
			return protoreflect.Value{}
		}
		_ = eachField(v.Message(), func(inner protoreflect.FieldDescriptor, v protoreflect.Value) (protoreflect.Value, error) {
			return blanked(inner, v), nil
		})
		return v
	}
	return protoreflect.Value{}
}

func redactPacked(packed *anypb.Any) error {
	m, err := packed.UnmarshalNew()
	if err != nil {
		return fmt.Errorf("read a %s: %w", packed.GetTypeUrl(), err)
	}
	if err := redact(m.ProtoReflect()); err != nil {
		return err
	}
	return packed.MarshalFrom(m)
}

// typedStruct is a struct that names its type. There are two such messages.
type typedStruct interface {
	proto.Message
	GetTypeUrl() string
	GetValue() *structpb.Struct
}

// redactTyped reads a struct as its type. Without anything sensitive in it, it stays as it was
// written.
func redactTyped(s typedStruct) error {
	of, err := protoregistry.GlobalTypes.FindMessageByURL(s.GetTypeUrl())
	if err != nil {
		return fmt.Errorf("a struct of the type %q: %w", s.GetTypeUrl(), err)
	}
	text, err := protojson.Marshal(s.GetValue())
	if err != nil {
		return err
	}
	m := of.New().Interface()
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(text, m); err != nil {
		return fmt.Errorf("read a struct as %s: %w", s.GetTypeUrl(), err)
	}
	before := proto.Clone(m)
	if err := redact(m.ProtoReflect()); err != nil || proto.Equal(before, m) {
		return err
	}
	shown, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(m)
	if err != nil {
		return err
	}
	return protojson.Unmarshal(shown, s.GetValue())
}
