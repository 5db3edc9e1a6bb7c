package recording

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/anypb"
)

// tree is a message as maps, lists and plain values, under the names that the fields have in
// Envoy's documentation. protojson alone would not do: it refuses a message in which there is a
// type that nobody here knows.
func tree(m protoreflect.Message) (map[string]any, error) {
	out := map[string]any{}
	var failed error
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		out[string(f.Name())], failed = field(f, v)
		return failed == nil
	})
	return out, failed
}

func field(f protoreflect.FieldDescriptor, v protoreflect.Value) (any, error) {
	switch {
	case f.IsList():
		items := make([]any, v.List().Len())
		for i := range items {
			item, err := single(f, v.List().Get(i))
			if err != nil {
				return nil, err
			}
			items[i] = item
		}
		return items, nil
	case f.IsMap():
		members := map[string]any{}
		var failed error
		v.Map().Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
			members[k.String()], failed = single(f.MapValue(), v)
			return failed == nil
		})
		return members, failed
	default:
		return single(f, v)
	}
}

func single(f protoreflect.FieldDescriptor, v protoreflect.Value) (any, error) {
	switch f.Kind() {
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return message(v.Message())
	case protoreflect.EnumKind:
		if value := f.Enum().Values().ByNumber(v.Enum()); value != nil {
			return string(value.Name()), nil
		}
		return fmt.Sprint(v.Enum()), nil
	case protoreflect.BytesKind:
		return base64.StdEncoding.EncodeToString(v.Bytes()), nil
	case protoreflect.StringKind:
		return v.String(), nil
	case protoreflect.BoolKind:
		return v.Bool(), nil
	default:
		return fmt.Sprint(v.Interface()), nil // numbers: as text they are compared exactly
	}
}

func message(m protoreflect.Message) (any, error) {
	switch body, isAny := m.Interface().(*anypb.Any); {
	case isAny:
		return unpacked(body)
	case strings.HasPrefix(string(m.Descriptor().FullName()), "google.protobuf."):
		return wellKnown(m)
	default:
		return tree(m)
	}
}

// unpacked looks into an Any. One of an unknown type keeps its bytes.
func unpacked(body *anypb.Any) (any, error) {
	inner, err := body.UnmarshalNew()
	if errors.Is(err, protoregistry.NotFound) {
		return map[string]any{"@type": body.GetTypeUrl(), "bytes": base64.StdEncoding.EncodeToString(body.GetValue())}, nil
	}
	if err != nil {
		return nil, err
	}
	out, err := tree(inner.ProtoReflect())
	if err != nil {
		return nil, err
	}
	out["@type"] = body.GetTypeUrl()
	return out, nil
}

// wellKnown is a duration, a wrapper, a struct and the like, as people write them.
func wellKnown(m protoreflect.Message) (any, error) {
	text, err := protojson.Marshal(m.Interface())
	if err != nil {
		return nil, err
	}
	var out any
	return out, json.Unmarshal(text, &out)
}
