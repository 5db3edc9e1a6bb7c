// Command commentgen is a plugin of protoc. It writes what the .proto files of the admin API say of
// their calls, messages and fields (mcp-server/openapi/comments.json): a program has the
// descriptors without the comments.
package main

import (
	"encoding/json"
	"strings"

	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/pluginpb"
)

func main() { protogen.Options{}.Run(generate) }

// described is the package whose comments are kept.
const described protoreflect.FullName = "pgmesh.admin.v1"

// comments are texts by the full names of what they describe.
type comments map[protoreflect.FullName]string

func generate(p *protogen.Plugin) error {
	p.SupportedFeatures = uint64(pluginpb.CodeGeneratorResponse_FEATURE_PROTO3_OPTIONAL)
	all := comments{}
	for _, file := range p.Files {
		if file.Generate && file.Desc.Package() == described {
			all.addFile(file)
		}
	}
	text, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	_, err = p.NewGeneratedFile("comments.json", "").Write(append(text, '\n'))
	return err
}

func (c comments) addFile(file *protogen.File) {
	for _, service := range file.Services {
		c.add(service.Desc, service.Comments)
		for _, method := range service.Methods {
			c.add(method.Desc, method.Comments)
		}
	}
	c.addEnums(file.Enums)
	c.addMessages(file.Messages)
}

func (c comments) addMessages(messages []*protogen.Message) {
	for _, message := range messages {
		c.add(message.Desc, message.Comments)
		for _, field := range message.Fields {
			c.add(field.Desc, field.Comments)
		}
		c.addEnums(message.Enums)
		c.addMessages(message.Messages)
	}
}

func (c comments) addEnums(enums []*protogen.Enum) {
	for _, enum := range enums {
		c.add(enum.Desc, enum.Comments)
		for _, value := range enum.Values {
			c.add(value.Desc, value.Comments)
		}
	}
}

func (c comments) add(of protoreflect.Descriptor, said protogen.CommentSet) {
	text := string(said.Leading)
	if text == "" {
		text = string(said.Trailing)
	}
	if text = strings.Join(strings.Fields(text), " "); text != "" {
		c[of.FullName()] = text
	}
}
