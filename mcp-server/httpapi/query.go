package httpapi

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"github.com/grpc-ecosystem/grpc-gateway/v2/utilities"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/pgmesh/pgmesh/internal/kit/nearest"
)

// strictQuery parses the parameters of a URL, and refuses unknown ones. The library ignores these,
// so that a mistyped filter would select everything.
type strictQuery struct {
	runtime.DefaultQueryParser
}

// Parse reads parameters into a request, except fields that the path or body has set.
func (q strictQuery) Parse(request proto.Message, values url.Values, said *utilities.DoubleArray) error {
	read := url.Values{}
	for name, given := range values {
		field, known := fieldOf(request.ProtoReflect().Descriptor(), name)
		if !known {
			return fmt.Errorf("unknown parameter %q (%s)", name, nearest.Hint(name, parameters(request.ProtoReflect().Descriptor(), said), "known are "))
		}
		if field.IsList() && field.Kind() == protoreflect.StringKind {
			for _, v := range given {
				read[name] = append(read[name], strings.Split(v, ",")...)
			}
			continue
		}
		read[name] = given
	}
	return q.DefaultQueryParser.Parse(request, read, said)
}

// fieldOf finds the field that a parameter names: resource.group.
func fieldOf(m protoreflect.MessageDescriptor, name string) (protoreflect.FieldDescriptor, bool) {
	first, rest, nested := strings.Cut(name, ".")
	field := m.Fields().ByTextName(first)
	if field == nil {
		field = m.Fields().ByJSONName(first)
	}
	switch {
	case field == nil:
		return nil, false
	case !nested:
		return field, true
	case field.Message() == nil || field.IsList() || field.IsMap():
		return nil, false
	}
	return fieldOf(field.Message(), rest)
}

// parameters lists the parameters that a request takes, by their JSON names.
func parameters(m protoreflect.MessageDescriptor, said *utilities.DoubleArray) []string {
	var names []string
	for i := range m.Fields().Len() {
		if f := m.Fields().Get(i); !said.HasCommonPrefix([]string{string(f.Name())}) {
			names = append(names, f.JSONName())
		}
	}
	slices.Sort(names)
	return names
}
