package demand

import (
	"iter"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/pgmesh/pgmesh/internal/ads/served"
)

// named counts how many resources name each cluster of a service.
type named struct{ count map[string]int }

func newNamed() *named { return &named{count: map[string]int{}} }

// update replaces a resource by another; either may be nil.
func (n *named) update(before, now *served.Resource) {
	if before != nil {
		for _, cluster := range clustersIn(decode(before)) {
			if n.count[cluster]--; n.count[cluster] == 0 {
				delete(n.count, cluster)
			}
		}
	}
	if now != nil {
		for _, cluster := range clustersIn(decode(now)) {
			n.count[cluster]++
		}
	}
}

func (n *named) addTo(all map[string]bool) {
	for cluster := range n.count {
		all[cluster] = true
	}
}

// decode returns the message of a resource that was encoded here.
func decode(r *served.Resource) proto.Message {
	m, err := r.Body.UnmarshalNew()
	if err != nil {
		panic("decode a resource that was encoded here: " + err.Error())
	}
	return m
}

// clustersIn lists the clusters of services that a message names anywhere, even in a filter that a
// patch added, or in a text with quotes around it: modules and scripts are told so whom to ask.
func clustersIn(m proto.Message) []string {
	seen := map[string]bool{}
	var names []string
	eachText(m.ProtoReflect(), func(text string) {
		for part := range quotedParts(text) {
			if lazy(part) && !seen[part] {
				seen[part] = true
				names = append(names, part)
			}
		}
	})
	return names
}

// quotedParts yields a text, or what quotes divide it into.
func quotedParts(text string) iter.Seq[string] {
	if !strings.Contains(text, lazyPrefix) {
		return func(func(string) bool) {}
	}
	return slices.Values(strings.FieldsFunc(text, func(c rune) bool { return c == '"' || c == '\'' }))
}

// eachText visits all strings of a message, and of messages packed in it.
func eachText(m protoreflect.Message, visit func(string)) {
	if packed, ok := m.Interface().(*anypb.Any); ok {
		if inner, err := packed.UnmarshalNew(); err == nil {
			eachText(inner.ProtoReflect(), visit)
		}
		return
	}
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.IsList():
			for i := range v.List().Len() {
				eachTextOf(f, v.List().Get(i), visit)
			}
		case f.IsMap():
			v.Map().Range(func(_ protoreflect.MapKey, item protoreflect.Value) bool {
				eachTextOf(f.MapValue(), item, visit)
				return true
			})
		default:
			eachTextOf(f, v, visit)
		}
		return true
	})
}

func eachTextOf(f protoreflect.FieldDescriptor, v protoreflect.Value, visit func(string)) {
	switch f.Kind() {
	case protoreflect.MessageKind:
		eachText(v.Message(), visit)
	case protoreflect.StringKind:
		visit(v.String())
	default:
	}
}
