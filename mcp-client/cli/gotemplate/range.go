package gotemplate

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"text/template/parse"
)

// ranged runs a range, over a list, the members of an object in the order of their names, or the
// numbers below one.
func (r *run) ranged(dot any, n *parse.RangeNode) error {
	defer r.forget(len(r.variables))
	over, err := r.value(dot, n.Pipe)
	if err != nil {
		return err
	}
	some := false
	each := func(key, item any) (more bool) {
		some = true
		err = r.iteration(n, key, item)
		if errors.Is(err, errContinue) {
			err = nil
		}
		return err == nil
	}
	switch over := over.(type) {
	case nil:
	case []any:
		for i, item := range over {
			if !each(int64(i), item) {
				break
			}
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(over)) {
			if !each(key, over[key]) {
				break
			}
		}
	case int64:
		for i := range over {
			if !each(i, i) {
				break
			}
		}
	default:
		return fmt.Errorf("%s: it cannot go through %s", n.Pipe, described(over))
	}
	if errors.Is(err, errBreak) {
		return nil
	}
	if err == nil && !some {
		return r.list(dot, n.ElseList)
	}
	return err
}

// iteration runs the range for an item. Of one variable it is the value, of two they are key and value.
func (r *run) iteration(n *parse.RangeNode, key, item any) error {
	if err := r.step(); err != nil {
		return err
	}
	defer r.forget(len(r.variables))
	values := []any{item}
	if len(n.Pipe.Decl) > 1 {
		values = []any{key, item}
	}
	for i, declared := range n.Pipe.Decl {
		if err := r.set(declared.Ident[0], values[i], n.Pipe.IsAssign); err != nil {
			return err
		}
	}
	return r.list(item, n.List)
}
