package push

import (
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"
)

// eachText visits every text in a message, those in packed messages too, in no order.
func eachText(m protoreflect.Message, visit func(string)) {
	if packed, is := m.Interface().(*anypb.Any); is {
		if inside, err := packed.UnmarshalNew(); err == nil {
			eachText(inside.ProtoReflect(), visit)
		}
		return
	}
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.IsMap():
			v.Map().Range(func(_ protoreflect.MapKey, value protoreflect.Value) bool {
				textIn(f.MapValue(), value, visit)
				return true
			})
		case f.IsList():
			for i := range v.List().Len() {
				textIn(f, v.List().Get(i), visit)
			}
		default:
			textIn(f, v, visit)
		}
		return true
	})
}

func textIn(f protoreflect.FieldDescriptor, v protoreflect.Value, visit func(string)) {
	switch {
	case f.Message() != nil:
		eachText(v.Message(), visit)
	case f.Kind() == protoreflect.StringKind:
		visit(v.String())
	}
}
