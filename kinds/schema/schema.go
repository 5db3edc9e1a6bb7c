// Package schema is the table of the types and fields of all specs, and of the rules beyond them.
// It validates specs in two walks, of the structure and of the rules. The table is data
// (schema.json, which programs have compressed, generated from the protobuf descriptors and the CRDs, and rules/*.yaml, written by
// hand), so that other programs can use it: the database validates in SQL.
//
// # The walk of the structure, which both must keep to the letter
//
// A spec is a JSON tree. The walk starts at the path "spec" with the kind's root type and visits
// each value once. A value has at most one violation; the first check that fails ends the checks of
// that value and, if the value has the wrong JSON type, of all below it. Violations come in the
// order of the walk.
//
// An object of a message type:
//
//  1. It must be an object: `expected an object, got a list`.
//  2. Its fields are visited in the order of the table. A field is looked up by its JSON name, then
//     by its aliases (the snake_case name). A member whose value is null is absent, as in
//     protobuf's JSON. If a field is there under two names, the object has the violation `only one
//     of jwksUri, jwks_uri may be set` and the first counts. A required field that is absent:
//     `required field is missing`, at the path of the field.
//  3. Of each oneof at most one field may be there: `only one of a, b may be set`, which names
//     those that are, in the order of the oneof, at the path of the object.
//  4. Members that are no field, in the order of their names: `unknown field "wieght"`, at the path
//     of the member, with the hint `did you mean "weight"?` if a name is near (see package nearest:
//     Levenshtein distance, letter case aside, at most 1 for names under 5 characters, else at most
//     max(2, length/3); the first of equals in table order), else `known fields: a, b, c` in table
//     order, or `it has no fields`.
//
// A field that is there is a list (Repeated), a map (Map) or a single value:
//
//   - A list must be a list. Too few or too many items: `must have at least 1 item, has 0`. Each
//     item is then checked as a single value at `path[0]`; null is a wrong type there.
//   - A map must be an object. Its size is checked in the same words. Each value is checked as a
//     single value, in the order of the keys; null is a wrong type. Keys of an integer type
//     (KeyType) must be of the form ^[0-9]+$: `key "x" is not an integer`, at the path of the
//     value, which is then not checked. A key that does not match the KeyFormat is reported with
//     the format's reason, at the path of the value, which is checked, too.
//
// A single value, by Type:
//
//   - message: as above. struct: any object, nothing below it is checked.
//   - bool: true or false.
//   - string: a string; then MinLength and MaxLength in characters (`must not be empty` for an
//     empty one, otherwise `must have at least 2 characters, has 1`), then Pattern (searched, not
//     anchored): `does not match the pattern p, got "x"`; then Format, with its reason. An empty
//     string as a single field matches every format, since it means unset.
//   - int32, int64, uint32, uint64: a whole number; 1.0 and 1e2 are whole; or a string of the form
//     ^-?[0-9]+$. A fraction: `expected an integer, got 1.5`. Then Min and Max: `must be
//     between 0 and 100, got 150`, `must be at least 1, got 0`, `must be at most 5, got 9`; "got"
//     repeats the number as written.
//   - double: a number or a string of the form ^-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?$; then Min
//     and Max.
//   - duration: a whole number (seconds), or a string: ^[-+]?[0-9]+$ (seconds), or
//     ^[-+]?(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$; otherwise `"x" is not a
//     duration`. More than 292 years is out of range. Then MinDuration, MaxDuration and Precision:
//     `must be at least 1ms, got 0s`, `must be at most 1h, got 2h`, `must be a multiple of 1ms, got
//     1us`, where the bound is repeated as it stands in the table.
//   - enum: a string that is one of Enum, or a whole number that is one of Numbers: `unknown value
//     "FOO"`, with the hint `did you mean "X"?` if one is near, else `one of A, B, C`.
//   - bytes: a string of base64, standard or URL alphabet, padding optional: `"x" is not base64`.
//
// A wrong JSON type is `expected X, got Y`. X is one of an object, a list, a string, a number, an
// integer, a boolean, a duration such as "5s"; Y is an object, a list, or the value: null, true, 1.5 or
// "x". Y is a string or a number if that has more than 40 characters, and a string if it has quotes or
// control characters.
//
// In a path a name that matches ^[A-Za-z_][A-Za-z0-9_-]*$ follows a dot, any other is written
// ["name"], and an index [0].
//
// # Formats
//
// A string matches a Format if it has at most Max characters, matches Pattern (if there is one),
// does not match Unlike, does not match Long (asked only of strings of more than 63 characters),
// and passes Function; or else if it matches the format Or. In Reason and Hint {value} stands for
// the string. Patterns use only syntax that Go's RE2 and the regular expressions of Postgres share,
// and that means the same in both.
//
// # The walk of the rules
//
// The rules are walked only if the structure has no problem. The spec is in its normal form: JSON
// names, enums by name, plain numbers, durations in seconds, no nulls. Explicit zero values stay,
// so a rule treats them like absent ones. For each object, first the rules of its type are
// evaluated, sorted by file name and in the order of the file; then the fields that are messages
// are walked, in the order of the table. Every problem is reported, at most once per rule and item.
//
// Rules are written in the SQL/JSON path language of Postgres 13, in lax mode, of which package
// predicate has what they need. A predicate that evaluates to null does not hold. $ is the object with
// the rule. A rule is one of these:
//
//   - Wrong: a predicate that holds if the rule is broken.
//   - Wrong and Each: the predicate is evaluated for each item that Each leads to: a field, or
//     several joined by dots, each of which steps into all items of a list, all values of a map (in
//     the order of the keys) or the one value. It has the variables $item, $i (the index in the
//     innermost list or map, from 0), $key (of the innermost map) and $parent (the message that has
//     the item's list, map or field).
//   - Unique and Each: the strings, numbers or booleans that are the member Unique of the items of
//     a list (or the items themselves, for "") must differ; each but the first of equals breaks the
//     rule. Nested lists are compared one by one.
//   - Check: the name of a function (checks.go, and mesh.test_rule), for what no predicate can
//     express.
//
// If When, a predicate on the object, does not hold, the rule is skipped. In the rules of the type
// of a whole spec $meta has the name, namespace, labels and annotations of the resource. Elsewhere,
// and if they are unknown, it is empty.
//
// At is the reported path, relative to the item (to the object, without Each; to the resource, if
// it begins with a slash). At, Reason and Hint may have {x} and {x.y} for members of the object and
// {item}, {item.x}, {parent.x}, {key}, {i}, {meta.x} for the variables: strings, numbers and
// booleans, "" for anything else.
//
// The database evaluates as many rules as it can in one predicate per type (see quickPredicate in
// package store): those that need no variables except $meta, and $item outside of filters. Prefer
// such rules for common fields.
package schema

import (
	_ "embed"
	"fmt"
	"sync"
)

//go:generate go run github.com/pgmesh/pgmesh/kinds/internal/schemagen -o schema.json

// Type is a message: an object with known fields.
type Type struct {
	Name   string     `json:"-"`
	Fields []Field    `json:"fields"`
	Oneofs [][]string `json:"oneofs,omitempty"` // sets of field names that exclude each other
	Rules  []*Rule    `json:"-"`
}

// Field is a member of an object, with what its value must be. For a list or a map, Type and
// everything from Enum to Pattern is about each item.
type Field struct {
	Name     string   `json:"name"`              // in JSON: "retryOn"
	Aliases  []string `json:"aliases,omitempty"` // other names that are accepted: "retry_on"
	Type     string   `json:"type"`              // a constant below
	TypeRef  string   `json:"ref,omitempty"`     // the message's or the protobuf enum's name
	Repeated bool     `json:"repeated,omitempty"`
	Map      bool     `json:"map,omitempty"`
	KeyType  string   `json:"keyType,omitempty"` // of a map, if its keys are not strings
	Required bool     `json:"required,omitempty"`

	MinItems *int `json:"minItems,omitempty"`
	MaxItems *int `json:"maxItems,omitempty"`

	Enum      []string `json:"enum,omitempty"`
	Numbers   []int    `json:"numbers,omitempty"` // the numbers of a protobuf enum, parallel to Enum
	Min       *float64 `json:"min,omitempty"`
	Max       *float64 `json:"max,omitempty"`
	MinLength *int     `json:"minLength,omitempty"`
	MaxLength *int     `json:"maxLength,omitempty"`
	Pattern   string   `json:"pattern,omitempty"`

	// Set by the rules.
	MinDuration, MaxDuration string  `json:"-"`
	Precision                string  `json:"-"` // a duration must be a multiple of it
	Format                   *Format `json:"-"`
	KeyFormat                *Format `json:"-"` // of the keys of a map
}

// What a Field's Type can be.
const (
	Message  = "message"
	Struct   = "struct"
	Bool     = "bool"
	String   = "string"
	Int32    = "int32"
	Int64    = "int64"
	Uint32   = "uint32"
	Uint64   = "uint64"
	Double   = "double"
	Duration = "duration"
	Enum     = "enum"
	Bytes    = "bytes"
)

// Table is the content of schema.json with the rules.
type Table struct {
	Roots   map[string]string  `json:"roots"` // "group/Kind" to the name of the spec's type
	Types   map[string]*Type   `json:"types"`
	Formats map[string]*Format `json:"-"`
}

//go:embed schema.json.gz
var generated []byte

var table = sync.OnceValue(func() *Table {
	t := &Table{}
	if err := decompress(generated, t); err != nil {
		panic(fmt.Sprintf("the embedded schema.json is broken, generate it anew: %v", err))
	}
	for name, typ := range t.Types {
		typ.Name = name
	}
	if err := t.addRules(); err != nil {
		panic(fmt.Sprintf("the embedded rules are broken: %v", err))
	}
	return t
})

// Types returns every type by its name. The map is shared and must not be changed.
func Types() map[string]*Type { return table().Types }

// Formats returns every format by its name. The map is shared and must not be changed.
func Formats() map[string]*Format { return table().Formats }

// Root returns the type of a kind's spec.
func Root(group, kind string) (*Type, bool) {
	t, ok := table().Types[table().Roots[group+"/"+kind]]
	return t, ok
}
