package predicate

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/theory/sqljson/path/ast"
)

// outcome is what becomes of a path.
type outcome int

const (
	nothing outcome = iota // it leads nowhere
	found
	failed // it cannot be followed
)

// path leads from a value to others, which it adds to those found. Where only the first is asked for, it
// ends there, and adds nothing.
type path func(e *evaluation, from any, first bool) outcome

// keep ends a path: what it leads to is kept.
func keep(e *evaluation, value any, first bool) outcome {
	if !first {
		e.found = append(e.found, value)
	}
	return found
}

// keepItems ends a path: of a list, the items are kept.
func keepItems(e *evaluation, value any, first bool) outcome {
	if list, is := value.([]any); is && !first {
		e.found = append(e.found, list...)
		return found
	}
	return keep(e, value, first)
}

// path compiles a node with those that follow it, and the end of the path.
func (c *compiler) path(n ast.Node, end path) path {
	if n == nil {
		return end
	}
	next := c.path(n.Next(), end)
	switch n := n.(type) {
	case *ast.ConstNode:
		return c.constant(n, next)
	case *ast.StringNode:
		return literal(n.Text(), next)
	case *ast.IntegerNode:
		return literal(n.Int(), next)
	case *ast.NumericNode:
		return literal(n.Float(), next)
	case *ast.VariableNode:
		i := c.variable(n)
		return func(e *evaluation, _ any, first bool) outcome { return next(e, e.values[i], first) }
	}
	return c.step(n, next)
}

func literal(value any, next path) path {
	return func(e *evaluation, _ any, first bool) outcome { return next(e, value, first) }
}

func (c *compiler) constant(n *ast.ConstNode, next path) path {
	switch n.Const() {
	case ast.ConstRoot:
		return func(e *evaluation, _ any, first bool) outcome { return next(e, e.root, first) }
	case ast.ConstCurrent:
		return func(e *evaluation, _ any, first bool) outcome { return next(e, e.current, first) }
	case ast.ConstTrue, ast.ConstFalse:
		return literal(n.Const() == ast.ConstTrue, next)
	case ast.ConstNull:
		return literal(nil, next)
	case ast.ConstAnyArray:
		return items(next)
	case ast.ConstAnyKey:
		return ofItems(values(next))
	}
	c.refuse(n)
	return nil
}

// step compiles what leads on from a value.
func (c *compiler) step(n ast.Node, next path) path {
	switch n := n.(type) {
	case *ast.KeyNode:
		return ofItems(member(n.Text(), next))
	case *ast.ArrayIndexNode:
		return c.subscripts(n, next)
	case *ast.UnaryNode:
		if n.Operator() == ast.UnaryFilter {
			return ofItems(filter(c.condition(n.Operand()), next))
		}
	case *ast.MethodNode:
		switch n.Name() {
		case ast.MethodSize:
			return size(next)
		case ast.MethodKeyValue:
			return ofItems(keyValues(next))
		}
	case *ast.AnyNode:
		if n.First() == 0 && n.Last() == math.MaxUint32 {
			return everywhere(next)
		}
	case *ast.BinaryNode:
		switch n.Operator() {
		case ast.BinaryAdd:
			return sum(c.path(n.Left(), keepItems), c.path(n.Right(), keepItems), 1, next)
		case ast.BinarySub:
			return sum(c.path(n.Left(), keepItems), c.path(n.Right(), keepItems), -1, next)
		}
	}
	c.refuse(n)
	return nil
}

// each follows a path from each of some values.
func (p path) each(e *evaluation, from []any, first bool) outcome {
	all := nothing
	for _, value := range from {
		one := p(e, value, first)
		if one == failed || one == found && first {
			return one
		}
		all = max(all, one)
	}
	return all
}

// ofItems follows a path from the items of a list, and from any other value itself.
func ofItems(p path) path {
	return func(e *evaluation, from any, first bool) outcome {
		if list, is := from.([]any); is {
			return p.each(e, list, first)
		}
		return p(e, from, first)
	}
}

// items is [*]. What is no list is taken for one of itself.
func items(next path) path { return ofItems(next) }

// values is .*, the values of an object, in the order in which Postgres has its keys.
func values(next path) path {
	return func(e *evaluation, from any, first bool) outcome { return next.each(e, inOrder(from), first) }
}

func inOrder(from any) []any {
	object, _ := from.(map[string]any)
	if len(object) == 0 {
		return nil
	}
	all := make([]any, 0, len(object))
	for _, key := range keys(object) {
		all = append(all, object[key])
	}
	return all
}

func keys(object map[string]any) []string {
	return slices.SortedFunc(maps.Keys(object), func(a, b string) int { return cmp.Or(len(a)-len(b), strings.Compare(a, b)) })
}

func member(name string, next path) path {
	return func(e *evaluation, from any, first bool) outcome {
		object, _ := from.(map[string]any)
		value, there := object[name]
		if !there {
			return nothing
		}
		return next(e, value, first)
	}
}

func filter(holds condition, next path) path {
	return func(e *evaluation, from any, first bool) outcome {
		before := e.current
		e.current = from
		said := holds(e)
		if e.current = before; said != yes {
			return nothing
		}
		return next(e, from, first)
	}
}

// size is the length of a list, and 1 of any other value.
func size(next path) path {
	return func(e *evaluation, from any, first bool) outcome {
		length := 1
		if list, is := from.([]any); is {
			length = len(list)
		}
		return next(e, int64(length), first)
	}
}

// keyValues are the members of an object, each with its key and its value, and without the id that
// Postgres gives it.
func keyValues(next path) path {
	return func(e *evaluation, from any, first bool) outcome {
		object, is := from.(map[string]any)
		if !is {
			return failed
		}
		all := make([]any, 0, len(object))
		for _, key := range keys(object) {
			all = append(all, map[string]any{"key": key, "value": object[key]})
		}
		return next.each(e, all, first)
	}
}

// everywhere is .**, a value with all that is in it.
func everywhere(next path) path {
	var within path
	within = func(e *evaluation, from any, first bool) outcome {
		here := next(e, from, first)
		if here == failed || here == found && first {
			return here
		}
		list, is := from.([]any)
		if !is {
			list = inOrder(from)
		}
		return max(here, within.each(e, list, first))
	}
	return within
}
