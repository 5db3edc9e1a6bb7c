package reference

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/pgmesh/pgmesh/kinds"
)

// Messages returns the messages of type M in a spec that name something, in document order: the
// destinations of a VirtualService, for example.
func Messages[M proto.Message](k *kinds.Kind, spec proto.Message) []M {
	var all []M
	eachValue(Places(k), spec.ProtoReflect(), func(_ *Named, v value) {
		if m, ok := v.get().Interface().(protoreflect.Message); ok {
			if found, ok := m.Interface().(M); ok {
				all = append(all, found)
			}
		}
	})
	return all
}

// Complete replaces the short names of hosts and gateways in a spec by their full names, as
// resolved in a namespace.
func Complete(k *kinds.Kind, spec proto.Message, namespace string) {
	eachValue(Places(k), spec.ProtoReflect(), func(n *Named, v value) {
		switch n.Form {
		case HostForm:
			v.set(FullHost(v.get().String(), namespace))
		case GatewayForm:
			v.set(FullGateway(v.get().String(), namespace))
		case DestinationForm:
			m := v.get().Message()
			host := value{of: m, field: m.Descriptor().Fields().ByName("host")}
			host.set(FullHost(host.get().String(), namespace))
		default: // is complete, or resolved where it is looked up
		}
	})
}

// value is a field of a message, or one item of a list field.
type value struct {
	of    protoreflect.Message
	field protoreflect.FieldDescriptor
	index int
}

func (v value) get() protoreflect.Value {
	if v.field.IsList() {
		return v.of.Get(v.field).List().Get(v.index)
	}
	return v.of.Get(v.field)
}

// set writes nothing if the value has this text already: shared messages must not be written to.
func (v value) set(text string) {
	switch {
	case v.get().String() == text:
	case v.field.IsList():
		v.of.Mutable(v.field).List().Set(v.index, protoreflect.ValueOfString(text))
	default:
		v.of.Set(v.field, protoreflect.ValueOfString(text))
	}
}

// eachValue visits the fields that name something. It ignores maps: in no kind with a message does
// a map name anything.
func eachValue(places []*Place, m protoreflect.Message, visit func(n *Named, v value)) {
	for _, p := range places {
		f := m.Descriptor().Fields().ByJSONName(p.Field)
		if !m.Has(f) {
			continue
		}
		count := 1
		if f.IsList() {
			count = m.Get(f).List().Len()
		}
		for i := range count {
			v := value{m, f, i}
			if p.Named != nil {
				visit(p.Named, v)
			}
			if len(p.Below) > 0 {
				eachValue(p.Below, v.get().Message(), visit)
			}
		}
	}
}
