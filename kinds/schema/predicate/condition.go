package predicate

import (
	"strings"

	"github.com/theory/sqljson/path/ast"
)

// truth is what becomes of a condition.
type truth int

const (
	no truth = iota
	yes
	unknown // it cannot be said
)

func truthOf(said bool) truth {
	if said {
		return yes
	}
	return no
}

// condition is a part of a predicate that is true or not.
type condition func(*evaluation) truth

func (c *compiler) condition(n ast.Node) condition {
	switch n := n.(type) {
	case *ast.BinaryNode:
		return c.binary(n)
	case *ast.UnaryNode:
		return c.unary(n)
	case *ast.RegexNode:
		pattern := c.pattern(n)
		return anyPair(c.path(n.Operand(), keepItems), literal(nil, keep), func(text, _ any) truth {
			s, is := text.(string)
			if !is {
				return unknown
			}
			return truthOf(pattern.MatchString(s))
		})
	}
	c.refuse(n)
	return nil
}

func (c *compiler) binary(n *ast.BinaryNode) condition {
	switch n.Operator() {
	case ast.BinaryAnd:
		return joined(c.condition(n.Left()), c.condition(n.Right()), no, yes)
	case ast.BinaryOr:
		return joined(c.condition(n.Left()), c.condition(n.Right()), yes, no)
	case ast.BinaryStartsWith:
		return anyPair(c.path(n.Left(), keepItems), c.path(n.Right(), keep), startsWith)
	}
	compare := comparison(n.Operator())
	if compare == nil {
		c.refuse(n)
		return nil
	}
	return anyPair(c.path(n.Left(), keepItems), c.path(n.Right(), keepItems), compare)
}

func (c *compiler) unary(n *ast.UnaryNode) condition {
	switch n.Operator() {
	case ast.UnaryNot:
		return not(c.condition(n.Operand()))
	case ast.UnaryExists:
		return exists(c.path(n.Operand(), keep))
	}
	c.refuse(n)
	return nil
}

// joined is two conditions by && or ||: what decides is all that they come to, no or yes, and what does
// not leaves it to the other.
func joined(left, right condition, decides, leaves truth) condition {
	return func(e *evaluation) truth {
		first := left(e)
		if first == decides {
			return decides
		}
		if second := right(e); second != leaves {
			return second
		}
		return first
	}
}

func not(of condition) condition {
	return func(e *evaluation) truth {
		switch of(e) {
		case yes:
			return no
		case no:
			return yes
		}
		return unknown
	}
}

func exists(p path) condition {
	return func(e *evaluation) truth {
		switch p(e, nil, true) {
		case failed:
			return unknown
		case found:
			return yes
		}
		return no
	}
}

// anyPair is true if a test is true of something to which the left path leads, and something to which
// the right one does.
func anyPair(left, right path, test func(left, right any) truth) condition {
	return func(e *evaluation) truth {
		begin := len(e.found)
		said := unknown
		if left(e, nil, false) != failed {
			if middle := len(e.found); right(e, nil, false) != failed {
				said = ofAnyPair(e.found[begin:middle], e.found[middle:], test)
			}
		}
		e.found = e.found[:begin]
		return said
	}
}

func ofAnyPair(left, right []any, test func(left, right any) truth) truth {
	all := no
	for _, l := range left {
		for _, r := range right {
			switch test(l, r) {
			case yes:
				return yes
			case unknown:
				all = unknown
			}
		}
	}
	return all
}

func startsWith(whole, beginning any) truth {
	text, is := whole.(string)
	prefix, too := beginning.(string)
	if !is || !too {
		return unknown
	}
	return truthOf(strings.HasPrefix(text, prefix))
}
