package spec

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"

	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/pgmesh/pgmesh/kinds/schema"
)

// precision is that of numbers in Terraform, in bits.
const precision = 512

// Value writes a tree of JSON as a value of Terraform. The tree has to be in its normal form, or
// have come from [Read]; nil is an absent message.
func Value(t *schema.Type, tree map[string]any, as tftypes.Type) (tftypes.Value, error) {
	if tree == nil {
		return tftypes.NewValue(as, nil), nil
	}
	object, is := as.(tftypes.Object)
	if !is {
		return tftypes.Value{}, fmt.Errorf("%s is no object in the schema", t.Name)
	}
	values := make(map[string]tftypes.Value, len(object.AttributeTypes))
	for i := range t.Fields {
		f := &t.Fields[i]
		value, err := field(f, tree[f.Name], object.AttributeTypes[FieldName(f)])
		if err != nil {
			return value, fmt.Errorf("%s: %w", f.Name, err)
		}
		values[FieldName(f)] = value
	}
	if kind, keyed := object.AttributeTypes[Key]; keyed && !has(t, Key) {
		values[Key] = tftypes.NewValue(kind, tree[Key])
	}
	return tftypes.NewValue(object, values), nil
}

func has(t *schema.Type, name string) bool {
	return slices.ContainsFunc(t.Fields, func(f schema.Field) bool { return f.Name == name })
}

func field(f *schema.Field, tree any, as tftypes.Type) (tftypes.Value, error) {
	switch {
	case f.Type == schema.Message && f.Repeated:
		list, _ := tree.([]any) // without blocks it is empty
		return messages(f, list, as, as.(tftypes.List).ElementType)
	case f.Type == schema.Message && f.Map:
		members, _ := tree.(map[string]any)
		return messages(f, named(members), as, as.(tftypes.Set).ElementType)
	case tree == nil:
		return tftypes.NewValue(as, nil), nil
	case single(f):
		members, is := tree.(map[string]any)
		if !is {
			return tftypes.Value{}, fmt.Errorf("expected an object, got %T", tree)
		}
		return Value(message(f), members, as)
	case f.Repeated:
		return items(f, tree, as)
	case f.Map:
		return values(f, tree, as)
	}
	return scalar(f, tree, as)
}

// named turns a map of messages into a list of them, each with its key.
func named(of map[string]any) (list []any) {
	for _, key := range slices.Sorted(maps.Keys(of)) {
		message, _ := of[key].(map[string]any)
		message = maps.Clone(message)
		if message == nil {
			message = map[string]any{}
		}
		message[Key] = key
		list = append(list, message)
	}
	return list
}

func messages(f *schema.Field, list []any, as, each tftypes.Type) (tftypes.Value, error) {
	all := make([]tftypes.Value, len(list))
	for i, item := range list {
		members, is := item.(map[string]any)
		if !is {
			return tftypes.Value{}, fmt.Errorf("[%d]: expected an object, got %T", i, item)
		}
		var err error
		if all[i], err = Value(message(f), members, each); err != nil {
			return all[i], fmt.Errorf("[%d]: %w", i, err)
		}
	}
	return tftypes.NewValue(as, all), nil
}

func items(f *schema.Field, tree any, as tftypes.Type) (tftypes.Value, error) {
	list, is := tree.([]any)
	kind, isList := as.(tftypes.List)
	if !is || !isList {
		return tftypes.Value{}, fmt.Errorf("expected a list, got %T", tree)
	}
	all := make([]tftypes.Value, len(list))
	for i, item := range list {
		var err error
		if all[i], err = scalar(f, item, kind.ElementType); err != nil {
			return all[i], fmt.Errorf("[%d]: %w", i, err)
		}
	}
	return tftypes.NewValue(as, all), nil
}

func values(f *schema.Field, tree any, as tftypes.Type) (tftypes.Value, error) {
	members, is := tree.(map[string]any)
	kind, isMap := as.(tftypes.Map)
	if !is || !isMap {
		return tftypes.Value{}, fmt.Errorf("expected a map, got %T", tree)
	}
	all := make(map[string]tftypes.Value, len(members))
	for key, member := range members {
		var err error
		if all[key], err = scalar(f, member, kind.ElementType); err != nil {
			return all[key], fmt.Errorf("[%q]: %w", key, err)
		}
	}
	return tftypes.NewValue(as, all), nil
}

func scalar(f *schema.Field, tree any, as tftypes.Type) (tftypes.Value, error) {
	if f.Type == schema.Struct {
		text, err := json.Marshal(tree)
		return tftypes.NewValue(as, string(text)), err
	}
	switch tree := tree.(type) {
	case json.Number:
		number, _, err := big.ParseFloat(string(tree), 10, precision, big.ToNearestEven)
		return tftypes.NewValue(as, number), err
	case bool, string:
		return tftypes.NewValue(as, tree), tftypes.ValidateValue(as, tree)
	}
	return tftypes.Value{}, fmt.Errorf("expected a value, got %T", tree)
}
