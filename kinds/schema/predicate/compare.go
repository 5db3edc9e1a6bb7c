package predicate

import (
	"cmp"
	"encoding/json"
	"strings"

	"github.com/theory/sqljson/path/ast"
)

// comparison compares two items; nil if the operator compares nothing.
func comparison(by ast.BinaryOperator) func(left, right any) truth {
	is := accepts(by)
	if is == nil {
		return nil
	}
	differ := truthOf(by == ast.BinaryNotEqual)
	return func(left, right any) truth {
		if (left == nil) != (right == nil) {
			return differ
		}
		order, known := compare(left, right)
		if !known {
			return unknown
		}
		return truthOf(is(order))
	}
}

// accepts says for which orders of two items an operator is true.
func accepts(by ast.BinaryOperator) func(order int) bool {
	switch by {
	case ast.BinaryEqual:
		return func(order int) bool { return order == 0 }
	case ast.BinaryNotEqual:
		return func(order int) bool { return order != 0 }
	case ast.BinaryLess:
		return func(order int) bool { return order < 0 }
	case ast.BinaryGreater:
		return func(order int) bool { return order > 0 }
	case ast.BinaryLessOrEqual:
		return func(order int) bool { return order <= 0 }
	case ast.BinaryGreaterOrEqual:
		return func(order int) bool { return order >= 0 }
	}
	return nil
}

// compare orders two items of one type. Objects and lists have no order.
func compare(left, right any) (order int, known bool) {
	switch left := left.(type) {
	case nil:
		return 0, true
	case string:
		right, is := right.(string)
		return strings.Compare(left, right), is
	case bool:
		right, is := right.(bool)
		return compareBools(left, right), is
	}
	l, is := numberOf(left)
	r, too := numberOf(right)
	return l.compare(r), is && too
}

func compareBools(left, right bool) int {
	switch {
	case left == right:
		return 0
	case left:
		return 1
	}
	return -1
}

// number is a number of JSON.
type number struct {
	whole    int64 // if it is one
	isWhole  bool
	fraction float64
}

func numberOf(v any) (n number, is bool) {
	switch v := v.(type) {
	case int64:
		return number{v, true, float64(v)}, true
	case float64:
		return number{fraction: v}, true
	case json.Number:
		if whole, err := v.Int64(); err == nil {
			return number{whole, true, float64(whole)}, true
		}
		fraction, err := v.Float64()
		return number{fraction: fraction}, err == nil
	}
	return number{}, false
}

func (n number) compare(to number) int {
	if n.isWhole && to.isWhole {
		return cmp.Compare(n.whole, to.whole)
	}
	return cmp.Compare(n.fraction, to.fraction)
}

// plus adds numbers, or takes one from the other.
func (n number) plus(other number, sign int64) any {
	if n.isWhole && other.isWhole {
		return n.whole + sign*other.whole
	}
	return n.fraction + float64(sign)*other.fraction
}
