package predicate

import (
	"math"

	"github.com/theory/sqljson/path/ast"
)

// one is the single value to which a path leads.
func (e *evaluation) one(p path, from any) (value any, is bool) {
	begin := len(e.found)
	is = p(e, from, false) != failed && len(e.found) == begin+1
	if is {
		value = e.found[begin]
	}
	e.found = e.found[:begin]
	return value, is
}

// sum adds two numbers, or takes the right one from the left one.
func sum(left, right path, sign int64, next path) path {
	return func(e *evaluation, from any, first bool) outcome {
		l, is := e.number(left, from)
		r, too := e.number(right, from)
		if !is || !too {
			return failed
		}
		return next(e, l.plus(r, sign), first)
	}
}

func (e *evaluation) number(p path, from any) (n number, is bool) {
	value, is := e.one(p, from)
	if !is {
		return number{}, false
	}
	return numberOf(value)
}

// within are the subscripts of a list between two.
type within struct{ from, to path }

// subscripts is [0], [1 to 3] or [0 to $i - 1].
func (c *compiler) subscripts(n *ast.ArrayIndexNode, next path) path {
	var all []within
	for _, s := range n.Subscripts() {
		both, is := s.(*ast.BinaryNode)
		if !is {
			c.refuse(n)
			return nil
		}
		in := within{from: c.path(both.Left(), keep)}
		if in.to = in.from; both.Right() != nil {
			in.to = c.path(both.Right(), keep)
		}
		all = append(all, in)
	}
	return func(e *evaluation, from any, first bool) outcome {
		list, is := from.([]any)
		if !is {
			list = []any{from}
		}
		out := nothing
		for _, in := range all {
			of, known := in.of(e, list, from)
			if !known {
				return failed
			}
			one := next.each(e, of, first)
			if one == failed || one == found && first {
				return one
			}
			out = max(out, one)
		}
		return out
	}
}

// of are the items within.
func (w within) of(e *evaluation, list []any, from any) (items []any, known bool) {
	begin, is := e.subscript(w.from, from)
	end, too := e.subscript(w.to, from)
	if !is || !too {
		return nil, false
	}
	begin, end = max(begin, 0), min(end+1, len(list))
	if begin >= end {
		return nil, true
	}
	return list[begin:end], true
}

// subscript is a number without its fraction.
func (e *evaluation) subscript(p path, from any) (i int, is bool) {
	n, is := e.number(p, from)
	if !is {
		return 0, false
	}
	whole := n.whole
	if !n.isWhole {
		whole = int64(n.fraction)
	}
	return int(whole), math.MinInt32 <= whole && whole <= math.MaxInt32
}
