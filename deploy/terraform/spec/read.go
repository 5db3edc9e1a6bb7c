package spec

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math/big"

	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/pgmesh/pgmesh/kinds/schema"
)

// Reading is what a value of Terraform says.
type Reading struct {
	Tree map[string]any // of JSON, with numbers that are json.Number; nil of a null value
	// Unknown are the paths of values that are not known before others are applied. The tree is without
	// them.
	Unknown  []string
	Problems []schema.Problem // what cannot be a tree
}

// Read reads a message, which is at a path.
func Read(t *schema.Type, path string, value tftypes.Value) (*Reading, error) {
	r := &Reading{}
	tree, err := r.object(t, path, value)
	r.Tree = tree
	return r, err
}

func (r *Reading) object(t *schema.Type, path string, value tftypes.Value) (map[string]any, error) {
	if !r.known(path, value) {
		return nil, nil //nolint:nilnil // nil is an absent message
	}
	var members map[string]tftypes.Value
	if err := value.As(&members); err != nil {
		return nil, err
	}
	tree := map[string]any{}
	for i := range t.Fields {
		f := &t.Fields[i]
		member, err := r.field(f, schema.Member(path, f.Name), members[FieldName(f)])
		if err != nil {
			return nil, err
		}
		if member != nil {
			tree[f.Name] = member
		}
	}
	return tree, nil
}

// known reports whether a value is there, and notes if that is not known yet.
func (r *Reading) known(path string, value tftypes.Value) bool {
	if !value.IsKnown() {
		r.Unknown = append(r.Unknown, path)
		return false
	}
	return !value.IsNull()
}

// field returns nil for a field that is absent.
func (r *Reading) field(f *schema.Field, path string, value tftypes.Value) (any, error) {
	if !r.known(path, value) {
		return nil, nil
	}
	switch {
	case f.Type == schema.Message && f.Map:
		return r.named(f, path, value)
	case f.Repeated:
		return r.items(f, path, value)
	case f.Map:
		return r.values(f, path, value)
	}
	return r.one(f, path, value)
}

// one reads a single value, which is a field or an item. It is nil if it is not known.
func (r *Reading) one(f *schema.Field, path string, value tftypes.Value) (any, error) {
	if f.Type != schema.Message {
		return r.scalar(f, path, value)
	}
	tree, err := r.object(message(f), path, value)
	if tree == nil {
		return nil, err
	}
	return tree, err
}

func (r *Reading) items(f *schema.Field, path string, value tftypes.Value) (any, error) {
	var list []tftypes.Value
	if err := value.As(&list); err != nil {
		return nil, err
	}
	if len(list) == 0 && f.Type == schema.Message {
		return nil, nil // there are no blocks
	}
	tree := make([]any, len(list))
	for i, item := range list {
		var err error
		if tree[i], err = r.one(f, schema.Item(path, i), item); err != nil {
			return nil, err
		}
	}
	return tree, nil
}

func (r *Reading) values(f *schema.Field, path string, value tftypes.Value) (any, error) {
	var members map[string]tftypes.Value
	if err := value.As(&members); err != nil {
		return nil, err
	}
	tree := make(map[string]any, len(members))
	for key, member := range members {
		var err error
		if tree[key], err = r.scalar(f, schema.Member(path, key), member); err != nil {
			return nil, err
		}
	}
	return tree, nil
}

// named reads the blocks of a map of messages.
func (r *Reading) named(f *schema.Field, path string, value tftypes.Value) (any, error) {
	var list []tftypes.Value
	if err := value.As(&list); err != nil || len(list) == 0 {
		return nil, err
	}
	tree := make(map[string]any, len(list))
	for _, item := range list {
		var members map[string]tftypes.Value
		var key string
		if !r.known(path, item) {
			continue
		}
		if err := item.As(&members); err != nil {
			return nil, err
		}
		if !r.known(path, members[Key]) {
			continue
		}
		if err := members[Key].As(&key); err != nil {
			return nil, err
		}
		if _, twice := tree[key]; twice {
			r.Problems = append(r.Problems, schema.Problem{Path: path, Reason: "two blocks have the key " + key})
		}
		var err error
		if tree[key], err = r.one(f, schema.Member(path, key), item); err != nil {
			return nil, err
		}
	}
	return tree, nil
}

func (r *Reading) scalar(f *schema.Field, path string, value tftypes.Value) (any, error) {
	if !r.known(path, value) {
		return nil, nil
	}
	switch {
	case value.Type().Is(tftypes.Bool):
		var is bool
		err := value.As(&is)
		return is, err
	case value.Type().Is(tftypes.Number):
		number := new(big.Float)
		err := value.As(&number)
		return decimal(number), err
	}
	var text string
	if err := value.As(&text); err != nil {
		return nil, err
	}
	if f.Type == schema.Struct {
		return r.decoded(path, text), nil
	}
	return text, nil
}

func decimal(number *big.Float) json.Number {
	if number.IsInt() {
		return json.Number(number.Text('f', 0))
	}
	return json.Number(number.Text('g', -1))
}

var errMore = errors.New("there is more after the value")

// Decode reads JSON without losing a digit of its numbers.
func Decode(text []byte) (tree any, err error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&tree); err != nil {
		return nil, err
	}
	if _, more := decoder.Token(); !errors.Is(more, io.EOF) {
		return nil, errMore
	}
	return tree, nil
}

// decoded reads an object that is written as a string.
func (r *Reading) decoded(path, text string) any {
	tree, err := Decode([]byte(text))
	if err != nil {
		r.Problems = append(r.Problems, schema.Problem{Path: path, Reason: "not JSON: " + err.Error(), Hint: "write jsonencode({…})"})
	}
	return tree
}
