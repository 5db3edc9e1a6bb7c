package spec

import (
	"encoding/json"
	"math/big"

	"github.com/pgmesh/pgmesh/kinds/schema"
)

// Keep returns the tree now, with each value as it was spelled before if it means the same: "60s" is
// no change of "1m". Trees that break their type are left as they are.
func Keep(t *schema.Type, before, now map[string]any) map[string]any {
	normalBefore, wrongBefore := schema.Check(t, "", before)
	normalNow, wrongNow := schema.Check(t, "", now)
	if before == nil || now == nil || len(wrongBefore)+len(wrongNow) > 0 {
		return now
	}
	kept, _ := keep(spelled{before, normalBefore}, spelled{now, normalNow}).(map[string]any)
	return kept
}

// spelled is a tree as it was written, and in its normal form. Both have the same members.
type spelled struct{ written, normal any }

func keep(before, now spelled) any {
	if equal(before.normal, now.normal) {
		return before.written
	}
	switch written := now.written.(type) {
	case map[string]any:
		kept := make(map[string]any, len(written))
		for name, member := range written {
			kept[name] = member
			if b, has := before.member(name); has {
				n, _ := now.member(name)
				kept[name] = keep(b, n)
			}
		}
		return kept
	case []any:
		kept := make([]any, len(written))
		for i := range written {
			n, _ := now.item(i)
			kept[i] = n.written
			if b, has := before.item(i); has {
				kept[i] = keep(b, n)
			}
		}
		return kept
	}
	return now.written
}

func (s spelled) member(name string) (spelled, bool) {
	written, is := s.written.(map[string]any)
	normal, same := s.normal.(map[string]any)
	_, has := written[name]
	return spelled{written[name], normal[name]}, is && same && has
}

func (s spelled) item(i int) (spelled, bool) {
	written, is := s.written.([]any)
	normal, same := s.normal.([]any)
	if !is || !same || i >= len(written) || i >= len(normal) {
		return spelled{}, false
	}
	return spelled{written[i], normal[i]}, true
}

// equal compares two normal forms, in which the same number may still be written in two ways.
func equal(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, is := b.(map[string]any)
		return is && holds(a, b) && holds(b, a)
	case []any:
		b, is := b.([]any)
		if !is || len(a) != len(b) {
			return false
		}
		for i := range a {
			if !equal(a[i], b[i]) {
				return false
			}
		}
		return true
	case json.Number:
		b, is := b.(json.Number)
		return is && (a == b || number(a).Cmp(number(b)) == 0)
	}
	return a == b // a string, a bool or nil
}

// holds reports whether all members of one object are equal in the other.
func holds(all, in map[string]any) bool {
	for name, member := range all {
		if !equal(member, in[name]) {
			return false
		}
	}
	return true
}

func number(n json.Number) *big.Float {
	value, _, err := big.ParseFloat(string(n), 10, 53, big.ToNearestEven) // the admin API has floats
	if err != nil {
		return new(big.Float)
	}
	return value
}
