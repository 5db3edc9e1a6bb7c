// Package patch applies patches to trees of JSON: merge patches (RFC 7386) and JSON patches (RFC 6902).
package patch

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Merge applies a merge patch: objects are merged, null removes, anything else replaces. The tree
// stays as it is.
func Merge(tree, patch any) any {
	changes, isObject := patch.(map[string]any)
	if !isObject {
		return patch
	}
	before, _ := tree.(map[string]any)
	merged := maps.Clone(before)
	if merged == nil {
		merged = map[string]any{}
	}
	for name, value := range changes {
		if value == nil {
			delete(merged, name)
			continue
		}
		merged[name] = Merge(merged[name], value)
	}
	return merged
}

// Operation is one step of a JSON patch.
type Operation struct {
	Op    string          `json:"op"`
	Path  string          `json:"path"`
	From  string          `json:"from"`
	Value json.RawMessage `json:"value"`
}

// Apply applies the operations of a JSON patch one after the other. The tree may be changed, also if
// one of them fails.
func Apply(tree any, operations []Operation) (any, error) {
	for i, o := range operations {
		var err error
		if tree, err = o.apply(tree); err != nil {
			return nil, fmt.Errorf("operation %d, %s %s: %w", i+1, o.Op, o.Path, err)
		}
	}
	return tree, nil
}

func (o Operation) apply(tree any) (any, error) {
	switch o.Op {
	case "remove":
		return change(tree, o.Path, remove)
	case "move", "copy":
		value, err := at(tree, o.From)
		if err != nil {
			return nil, fmt.Errorf("from %s: %w", o.From, err)
		}
		value = clone(value)
		if o.Op == "move" {
			if o.Path == o.From {
				return tree, nil
			}
			if strings.HasPrefix(o.Path, o.From+"/") {
				return nil, errors.New("nothing can be moved into itself")
			}
			if tree, err = change(tree, o.From, remove); err != nil {
				return nil, err
			}
		}
		return change(tree, o.Path, adding(value))
	case "add", "replace", "test":
		return o.withValue(tree)
	}
	return nil, errors.New("is no operation; there are add, remove, replace, move, copy and test")
}

func (o Operation) withValue(tree any) (any, error) {
	var value any
	if o.Value == nil {
		return nil, errors.New("the value is missing")
	}
	if err := json.Unmarshal(o.Value, &value); err != nil {
		return nil, err
	}
	switch o.Op {
	case "add":
		return change(tree, o.Path, adding(value))
	case "replace":
		return change(tree, o.Path, replacing(value))
	}
	there, err := at(tree, o.Path)
	if err == nil && !reflect.DeepEqual(there, value) {
		err = fmt.Errorf("it is %s", short(there))
	}
	return tree, err
}

func short(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return "another value"
	}
	return string(text)
}

func clone(value any) any {
	switch value := value.(type) {
	case map[string]any:
		copied := make(map[string]any, len(value))
		for name, member := range value {
			copied[name] = clone(member)
		}
		return copied
	case []any:
		copied := make([]any, len(value))
		for i, item := range value {
			copied[i] = clone(item)
		}
		return copied
	}
	return value
}

var unescape = strings.NewReplacer("~1", "/", "~0", "~")

// steps are the names of a JSON pointer.
func steps(path string) ([]string, error) {
	if path == "" {
		return nil, nil
	}
	if !strings.HasPrefix(path, "/") {
		return nil, errors.New("a path begins with /, as /spec/http/0/timeout")
	}
	names := strings.Split(path[1:], "/")
	for i, name := range names {
		names[i] = unescape.Replace(name)
	}
	return names, nil
}

var errMissing = errors.New("there is nothing at that path")

func at(tree any, path string) (any, error) {
	names, err := steps(path)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		switch holder := tree.(type) {
		case map[string]any:
			value, found := holder[name]
			if !found {
				return nil, errMissing
			}
			tree = value
		case []any:
			i, err := index(name, len(holder)-1)
			if err != nil {
				return nil, err
			}
			tree = holder[i]
		default:
			return nil, errMissing
		}
	}
	return tree, nil
}

// index reads the index of an item that may be at most last.
func index(name string, last int) (int, error) {
	i, err := strconv.ParseUint(name, 10, 31)
	switch {
	case err != nil || len(name) > 1 && name[0] == '0':
		return 0, fmt.Errorf("%q is no index of a list", name)
	case int(i) > last:
		return 0, errMissing
	}
	return int(i), nil
}

// step changes the member of an object or the item of a list, and returns the holder.
type step func(holder any, name string) (any, error)

// change does a step at the last name of a path, and returns the whole tree.
func change(tree any, path string, last step) (any, error) {
	names, err := steps(path)
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		root := map[string]any{"": tree}
		if _, err := last(root, ""); err != nil {
			return nil, err
		}
		return root[""], nil
	}
	return changeAt(tree, names, last)
}

func changeAt(tree any, names []string, last step) (any, error) {
	if len(names) == 1 {
		return last(tree, names[0])
	}
	switch holder := tree.(type) {
	case map[string]any:
		member, found := holder[names[0]]
		if !found {
			return nil, errMissing
		}
		changed, err := changeAt(member, names[1:], last)
		holder[names[0]] = changed
		return holder, err
	case []any:
		i, err := index(names[0], len(holder)-1)
		if err != nil {
			return nil, err
		}
		holder[i], err = changeAt(holder[i], names[1:], last)
		return holder, err
	}
	return nil, errMissing
}

func remove(holder any, name string) (any, error) {
	switch holder := holder.(type) {
	case map[string]any:
		if _, found := holder[name]; !found {
			return nil, errMissing
		}
		delete(holder, name)
		return holder, nil
	case []any:
		i, err := index(name, len(holder)-1)
		if err != nil {
			return nil, err
		}
		return slices.Delete(holder, i, i+1), nil
	}
	return nil, errMissing
}

func adding(value any) step {
	return func(holder any, name string) (any, error) {
		switch holder := holder.(type) {
		case map[string]any:
			holder[name] = value
			return holder, nil
		case []any:
			if name == "-" {
				return append(holder, value), nil
			}
			i, err := index(name, len(holder))
			if err != nil {
				return nil, err
			}
			return slices.Insert(holder, i, value), nil
		}
		return nil, errMissing
	}
}

func replacing(value any) step {
	return func(holder any, name string) (any, error) {
		switch holder := holder.(type) {
		case map[string]any:
			if _, found := holder[name]; !found {
				return nil, errMissing
			}
			holder[name] = value
			return holder, nil
		case []any:
			i, err := index(name, len(holder)-1)
			if err != nil {
				return nil, err
			}
			holder[i] = value
			return holder, nil
		}
		return nil, errMissing
	}
}
