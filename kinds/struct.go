package kinds

import (
	"encoding/json"
	"fmt"

	"google.golang.org/protobuf/types/known/structpb"
)

// structOf makes a Struct of a tree, as JSON would say it: to write JSON and to read it again takes
// several times as long.
func structOf(tree map[string]any) (*structpb.Struct, error) {
	fields := make(map[string]*structpb.Value, len(tree))
	for name, child := range tree {
		value, err := valueOf(child)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		fields[name] = value
	}
	return &structpb.Struct{Fields: fields}, nil
}

func valueOf(tree any) (*structpb.Value, error) {
	switch tree := tree.(type) {
	case map[string]any:
		object, err := structOf(tree)
		return structpb.NewStructValue(object), err
	case []any:
		list, err := listOf(tree)
		return structpb.NewListValue(list), err
	case json.Number:
		number, err := tree.Float64()
		return structpb.NewNumberValue(number), err
	default:
		return structpb.NewValue(tree)
	}
}

func listOf(tree []any) (*structpb.ListValue, error) {
	values := make([]*structpb.Value, len(tree))
	for i, child := range tree {
		value, err := valueOf(child)
		if err != nil {
			return nil, fmt.Errorf("%d: %w", i, err)
		}
		values[i] = value
	}
	return &structpb.ListValue{Values: values}, nil
}
