package spec

import (
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-framework/types/basetypes"

	"github.com/pgmesh/pgmesh/kinds/jsonschema"
	table "github.com/pgmesh/pgmesh/kinds/schema"
)

// Block describes a message.
func Block(t *table.Type, description string) schema.SingleNestedBlock {
	arguments, blocks := members(t, optional)
	return one(schema.SingleNestedBlock{Description: description, Attributes: arguments, Blocks: blocks})
}

// one and each note the type of a block, which the framework makes anew from all that is in the block
// whenever it asks: for each value of each resource.
func one(b schema.SingleNestedBlock) schema.SingleNestedBlock {
	b.CustomType = typeOf(b.Type())
	return b
}

func each(arguments map[string]schema.Attribute, blocks map[string]schema.Block) schema.NestedBlockObject {
	object := schema.NestedBlockObject{Attributes: arguments, Blocks: blocks}
	object.CustomType = typeOf(object.Type())
	return object
}

func typeOf(t attr.Type) basetypes.ObjectTypable {
	object, is := t.(basetypes.ObjectTypable)
	if !is {
		panic(fmt.Sprintf("a block is %T, and not an object", t))
	}
	return object
}

// presence says whether a message is there whenever its arguments are asked for. Terraform asks for
// the required ones of a single block also if there is no such block.
type presence bool

const (
	optional presence = false
	given    presence = true
)

func members(t *table.Type, is presence) (arguments map[string]schema.Attribute, blocks map[string]schema.Block) {
	arguments, blocks = map[string]schema.Attribute{}, map[string]schema.Block{}
	for i := range t.Fields {
		f := &t.Fields[i]
		text := jsonschema.Description(t.Name, f.Name)
		if f.Type == table.Message {
			blocks[FieldName(f)] = block(f, text)
		} else {
			arguments[FieldName(f)] = argument(f, text, f.Required && is == given)
		}
	}
	return arguments, blocks
}

func block(f *table.Field, text string) schema.Block {
	is := given
	if single(f) {
		is = optional
	}
	arguments, blocks := members(message(f), is)
	switch {
	case f.Repeated:
		object := each(arguments, blocks)
		return schema.ListNestedBlock{Description: text, NestedObject: object, CustomType: types.ListType{ElemType: object.Type()}}
	case f.Map:
		arguments[Key] = schema.StringAttribute{Required: true, Description: "The name of this one among the others."}
		object := each(arguments, blocks)
		return schema.SetNestedBlock{Description: text, NestedObject: object, CustomType: types.SetType{ElemType: object.Type()}}
	}
	return one(schema.SingleNestedBlock{Description: text, Attributes: arguments, Blocks: blocks})
}

func argument(f *table.Field, text string, required bool) schema.Attribute {
	text = strings.TrimSpace(text + " " + hint(f))
	switch {
	case f.Repeated:
		return schema.ListAttribute{Required: required, Optional: !required, Description: text, ElementType: element(f)}
	case f.Map:
		return schema.MapAttribute{Required: required, Optional: !required, Description: text, ElementType: element(f)}
	}
	switch element(f) {
	case types.BoolType:
		return schema.BoolAttribute{Required: required, Optional: !required, Description: text}
	case types.Int64Type:
		return schema.Int64Attribute{Required: required, Optional: !required, Description: text}
	case types.NumberType:
		return schema.NumberAttribute{Required: required, Optional: !required, Description: text}
	}
	return schema.StringAttribute{Required: required, Optional: !required, Description: text}
}

func element(f *table.Field) attr.Type {
	switch f.Type {
	case table.Bool:
		return types.BoolType
	case table.Int32, table.Int64, table.Uint32:
		return types.Int64Type
	case table.Uint64, table.Double:
		return types.NumberType
	}
	return types.StringType
}

// hint says of an argument what its type does not.
func hint(f *table.Field) string {
	text := form(f)
	if f.Required {
		text = strings.TrimSpace(text + " Required.")
	}
	return text
}

func form(f *table.Field) string {
	switch f.Type {
	case table.Enum:
		return "One of " + strings.Join(f.Enum, ", ") + "."
	case table.Duration:
		return `A duration, such as "5s".`
	case table.Bytes:
		return "Bytes in base64."
	case table.Struct:
		return "JSON: jsonencode({…})."
	}
	if f.Min != nil && f.Max != nil {
		return fmt.Sprintf("From %v to %v.", *f.Min, *f.Max)
	}
	return ""
}
