package gotemplate

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"html"
	"net/url"
	"slices"
)

// functions are those of Go's templates that are of use with JSON, and kubectl's own: exists and
// base64decode. The two that decide early, "and" with "or", are with the operands.
var functions = map[string]func(args []any) (any, error){
	"not":          of1(func(v any) (any, error) { return !truth(v), nil }),
	"len":          of1(length),
	"index":        index,
	"exists":       exists,
	"slice":        slice,
	"eq":           equalsOne,
	"ne":           of2(func(a, b any) (any, error) { same, err := equals(a, b); return !same, err }),
	"lt":           ordered(func(c int) bool { return c < 0 }),
	"le":           ordered(func(c int) bool { return c <= 0 }),
	"gt":           ordered(func(c int) bool { return c > 0 }),
	"ge":           ordered(func(c int) bool { return c >= 0 }),
	"print":        func(args []any) (any, error) { return fmt.Sprint(args...), nil },
	"println":      func(args []any) (any, error) { return fmt.Sprintln(args...), nil },
	"printf":       printf,
	"html":         func(args []any) (any, error) { return html.EscapeString(printed(args)), nil },
	"urlquery":     func(args []any) (any, error) { return url.QueryEscape(printed(args)), nil },
	"base64decode": of1(base64decode),
}

func of1(f func(any) (any, error)) func([]any) (any, error) {
	return func(args []any) (any, error) {
		if len(args) != 1 {
			return nil, fmt.Errorf("it takes one argument, and there are %d", len(args))
		}
		return f(args[0])
	}
}

func of2(f func(a, b any) (any, error)) func([]any) (any, error) {
	return func(args []any) (any, error) {
		if len(args) != 2 {
			return nil, fmt.Errorf("it takes two arguments, and there are %d", len(args))
		}
		return f(args[0], args[1])
	}
}

// truth reports whether a value is not empty.
func truth(v any) bool {
	switch v := v.(type) {
	case nil:
		return false
	case bool:
		return v
	case string:
		return v != ""
	case int64:
		return v != 0
	case float64:
		return v != 0
	case []any:
		return len(v) > 0
	case map[string]any:
		return len(v) > 0
	}
	return true
}

// text is how a value is printed.
func text(v any) string {
	if v == nil {
		return "<no value>"
	}
	return fmt.Sprint(v)
}

// printed is how arguments are printed one after the other.
func printed(args []any) string {
	args = slices.Clone(args)
	for i, arg := range args {
		if arg == nil {
			args[i] = text(nil)
		}
	}
	return fmt.Sprint(args...)
}

// described names a value in an error.
func described(v any) string {
	switch v := v.(type) {
	case nil:
		return "what is not there"
	case string:
		return fmt.Sprintf("the string %q", v)
	case []any:
		return "a list"
	case map[string]any:
		return "an object"
	}
	return fmt.Sprint(v)
}

func length(v any) (any, error) {
	switch v := v.(type) {
	case string:
		return int64(len(v)), nil
	case []any:
		return int64(len(v)), nil
	case map[string]any:
		return int64(len(v)), nil
	}
	return nil, fmt.Errorf("%s has no length", described(v))
}

// index follows keys and positions.
func index(args []any) (any, error) {
	if len(args) == 0 {
		return nil, errors.New("it takes a list or an object")
	}
	at := args[0]
	for _, key := range args[1:] {
		switch of := at.(type) {
		case nil:
			return nil, nil
		case map[string]any:
			name, is := key.(string)
			if !is {
				return nil, fmt.Errorf("%s is no name of a member", described(key))
			}
			at = of[name]
		case []any:
			i, is := key.(int64)
			if !is || i < 0 || i >= int64(len(of)) {
				return nil, fmt.Errorf("there is no item %s in a list of %d", text(key), len(of))
			}
			at = of[i]
		default:
			return nil, fmt.Errorf("%s has no items", described(at))
		}
	}
	return at, nil
}

// exists reports whether index finds something.
func exists(args []any) (any, error) {
	found, err := index(args)
	return err == nil && found != nil, nil
}

func slice(args []any) (any, error) {
	if len(args) == 0 || len(args) > 3 {
		return nil, errors.New("it takes a list or a string, and where to begin and end")
	}
	size, err := length(args[0])
	if err != nil {
		return nil, err
	}
	bounds := [2]int64{0, size.(int64)}
	for i, given := range args[1:] {
		at, is := given.(int64)
		if !is || at < 0 || at > size.(int64) {
			return nil, fmt.Errorf("%s is no place in what has the length %d", text(given), size)
		}
		bounds[i] = at
	}
	if bounds[0] > bounds[1] {
		return nil, fmt.Errorf("it begins at %d and ends at %d", bounds[0], bounds[1])
	}
	switch of := args[0].(type) {
	case string:
		return of[bounds[0]:bounds[1]], nil
	case []any:
		return of[bounds[0]:bounds[1]], nil
	}
	return nil, fmt.Errorf("%s has no order", described(args[0]))
}

// equalsOne reports whether the first argument is one of the others.
func equalsOne(args []any) (any, error) {
	if len(args) < 2 {
		return nil, errors.New("it takes two arguments at least")
	}
	for _, other := range args[1:] {
		same, err := equals(args[0], other)
		if same || err != nil {
			return same, err
		}
	}
	return false, nil
}

func equals(a, b any) (bool, error) {
	if a == nil || b == nil {
		return a == nil && b == nil, nil
	}
	if x, is := a.(bool); is {
		if y, is := b.(bool); is {
			return x == y, nil
		}
	}
	c, err := compare(a, b)
	return c == 0 && err == nil, err
}

func ordered(holds func(int) bool) func([]any) (any, error) {
	return of2(func(a, b any) (any, error) {
		c, err := compare(a, b)
		return err == nil && holds(c), err
	})
}

// compare compares two strings or two numbers.
func compare(a, b any) (int, error) {
	switch x := a.(type) {
	case string:
		if y, is := b.(string); is {
			return cmp.Compare(x, y), nil
		}
	case int64:
		switch y := b.(type) {
		case int64:
			return cmp.Compare(x, y), nil
		case float64:
			return cmp.Compare(float64(x), y), nil
		}
	case float64:
		switch y := b.(type) {
		case int64:
			return cmp.Compare(x, float64(y)), nil
		case float64:
			return cmp.Compare(x, y), nil
		}
	}
	return 0, fmt.Errorf("%s and %s cannot be compared", described(a), described(b))
}

func printf(args []any) (any, error) {
	if len(args) > 0 {
		if format, is := args[0].(string); is {
			return fmt.Sprintf(format, args[1:]...), nil
		}
	}
	return nil, errors.New("it takes a format first")
}

func base64decode(v any) (any, error) {
	given, is := v.(string)
	if !is {
		return nil, fmt.Errorf("%s is no string", described(v))
	}
	decoded, err := base64.StdEncoding.DecodeString(given)
	if err != nil {
		return nil, fmt.Errorf("decode base64: %w", err)
	}
	return string(decoded), nil
}
