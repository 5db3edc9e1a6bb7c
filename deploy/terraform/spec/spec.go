// Package spec turns the specs of resources into what Terraform has, and back. Both are made of the
// table that pgmesh itself checks resources with.
//
// A message is a block and all else an argument: Terraform drops unknown members of an argument
// without a word, and refuses unknown arguments of a block (docs/decisions/0077-messages-are-blocks-in-terraform.md).
//
//	message                 a block
//	list of messages        a block for each
//	map of messages         a block for each, with the argument key
//	list, map of others     a list, a map
//	bool                    a bool
//	numbers                 a number
//	duration, enum, bytes   a string
//	any object              a string of JSON: jsonencode({…})
package spec

import "github.com/pgmesh/pgmesh/kinds/schema"

// Key is the argument that names a block of a map.
const Key = "key"

// single reports whether a field is one message.
func single(f *schema.Field) bool { return f.Type == schema.Message && !f.Repeated && !f.Map }

// message returns the type of a field that is a message, or has messages.
func message(f *schema.Field) *schema.Type { return schema.Types()[f.TypeRef] }
