package envoyfilter

import (
	"fmt"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/kinds/envoy"
)

// merged returns a message with another merged into it, as protobuf merges: fields set in src
// count, messages are merged, lists are appended to or replaced. Durations and wrapped scalars are
// replaced, because half of one means nothing. It writes to neither message; the result shares what
// neither changes.
func merged[M proto.Message](dst, src M, replaceLists bool) M {
	return mergedMessage(dst.ProtoReflect(), src.ProtoReflect(), replaceLists).Interface().(M) //nolint:forcetypeassert // it is of dst's type
}

// mergedBy merges the value of a patch into a message.
func mergedBy[M proto.Message](m, value M, patch mesh.Patch) M {
	return merged(m, value, patch.ReplacesLists())
}

// removedOrMerged applies, one after the other, the patches that remove a message or merge
// something into it. Each must match what the earlier ones made of the message. It reports whether
// the message is still there.
func removedOrMerged[M proto.Message](patches []mesh.Patch, m M, matches func(mesh.Patch, M) bool, merge func(m, value M, patch mesh.Patch) M) (out M, there bool) {
	for _, patch := range patches {
		if !matches(patch, m) {
			continue
		}
		switch value, _ := patch.Value.(M); {
		case patch.Operation == networking.EnvoyFilter_Patch_REMOVE:
			return out, false
		case patch.Merges():
			m = merge(m, value, patch)
		}
	}
	return m, true
}

// mergedMessage does not copy what it does not merge: messages within dst and src are shared with
// the result.
func mergedMessage(dst, src protoreflect.Message, replaceLists bool) protoreflect.Message {
	out := shallow(dst)
	src.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.IsList():
			list := out.Mutable(f).List()
			if replaceLists {
				list.Truncate(0)
			}
			for i := range v.List().Len() {
				list.Append(v.List().Get(i))
			}
		case f.IsMap():
			v.Map().Range(func(k protoreflect.MapKey, item protoreflect.Value) bool {
				out.Mutable(f).Map().Set(k, item)
				return true
			})
		case f.Message() != nil && dst.Has(f) && !whole(f.Message()):
			out.Set(f, protoreflect.ValueOfMessage(mergedMessage(dst.Get(f).Message(), v.Message(), replaceLists)))
		default:
			out.Set(f, v)
		}
		return true
	})
	return out
}

// whole reports whether messages of a type stand for one value.
func whole(d protoreflect.MessageDescriptor) bool {
	return d.ParentFile().Package() == "google.protobuf" && d.Name() != "Struct" && d.Name() != "Any"
}

// shallow copies a message, but not the messages in it.
func shallow(m protoreflect.Message) protoreflect.Message {
	out := m.New()
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.IsList():
			list := out.Mutable(f).List()
			for i := range v.List().Len() {
				list.Append(v.List().Get(i))
			}
		case f.IsMap():
			copied := out.Mutable(f).Map()
			v.Map().Range(func(k protoreflect.MapKey, item protoreflect.Value) bool {
				copied.Set(k, item)
				return true
			})
		default:
			out.Set(f, v)
		}
		return true
	})
	out.SetUnknown(m.GetUnknown())
	return out
}

// altered returns a shallow copy with fields set.
func altered[M proto.Message](m M, set func(M)) M {
	out := shallow(m.ProtoReflect()).Interface().(M) //nolint:forcetypeassert // it is of m's type
	set(out)
	return out
}

// mergedPacked merges packed messages, which must be of one type.
func mergedPacked(dst, src *anypb.Any, replaceLists bool) (*anypb.Any, error) {
	a, err := envoy.Unpack(dst)
	if err != nil {
		return nil, err
	}
	b, err := envoy.Unpack(src)
	if err != nil {
		return nil, err
	}
	if a.ProtoReflect().Descriptor() != b.ProtoReflect().Descriptor() {
		return nil, fmt.Errorf("%s cannot be merged into %s", b.ProtoReflect().Descriptor().FullName(), a.ProtoReflect().Descriptor().FullName())
	}
	return pack(merged(a, b, replaceLists))
}

func pack(m proto.Message) (*anypb.Any, error) {
	out := &anypb.Any{}
	return out, anypb.MarshalFrom(out, m, proto.MarshalOptions{Deterministic: true})
}
