package openapi

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"google.golang.org/protobuf/reflect/protoreflect"
)

//go:embed comments.json
var commentsJSON []byte

// comments are what the .proto files say, by the full names of what they describe: make generate.
var comments = sync.OnceValue(func() (all map[protoreflect.FullName]string) {
	if err := json.Unmarshal(commentsJSON, &all); err != nil {
		panic(fmt.Sprintf("the embedded comments.json is broken, generate it anew: %v", err))
	}
	return all
})

// describe adds what the .proto files say of d to its description in the document. A description
// that is there already, of a type, comes after it.
func describe(in object, d protoreflect.Descriptor) object {
	texts := []string{comments()[d.FullName()]}
	if f, is := d.(protoreflect.FieldDescriptor); is && f.Enum() != nil {
		texts = append(texts, ofValues(f.Enum()))
	}
	before, _ := in["description"].(string)
	if text := strings.TrimSpace(strings.Join(append(texts, before), " ")); text != "" {
		in["description"] = text
	}
	return in
}

// ofValues tells of the values of an enum that the .proto files describe.
func ofValues(e protoreflect.EnumDescriptor) string {
	var said []string
	for i := range e.Values().Len() {
		value := e.Values().Get(i)
		if text := comments()[value.FullName()]; text != "" {
			said = append(said, fmt.Sprintf("%s: %s", value.Name(), text))
		}
	}
	return strings.Join(said, " ")
}
