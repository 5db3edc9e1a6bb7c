package schema

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// localities finds what is wrong with how a load balancer shall distribute requests: places that are none or overlap, and shares that are
// more or less than the whole.
func localities(object, _ map[string]any) []Problem {
	var found localityCheck
	items, _ := object["distribute"].([]any)
	var from, paths []string
	for i, item := range items {
		members, _ := item.(map[string]any)
		at := Item("distribute", i)
		origin, _ := members["from"].(string)
		from, paths = append(from, origin), append(paths, at+".from")
		to, _ := members["to"].(map[string]any)
		found.shares(at+".to", to)
	}
	found.apart(from, paths)
	return found
}

type localityCheck []Problem

func (c *localityCheck) shares(path string, to map[string]any) {
	var names, paths []string
	total := int64(0)
	for _, name := range slices.Sorted(maps.Keys(to)) {
		names, paths = append(names, name), append(paths, Member(path, name))
		weight, _ := to[name].(json.Number)
		share, _ := weight.Int64() // is in range, or would have been told
		total += share
	}
	if total != 100 {
		*c = append(*c, Problem{Path: path, Reason: fmt.Sprintf("the weights add up to %d, not to 100", total)})
	}
	c.apart(names, paths)
}

// apart demands that none of the localities is part of one before it.
func (c *localityCheck) apart(names, paths []string) {
	var before []string
	for i, name := range names {
		if !isLocality(name) {
			*c = append(*c, Problem{
				Path: paths[i], Reason: fmt.Sprintf(`"%s" is not a locality`, name), Hint: `write it as region/zone/subzone, of which the last may be "*"`,
			})
			continue
		}
		if j := slices.IndexFunc(before, func(other string) bool { return localityCovers(other, name) }); j >= 0 {
			*c = append(*c, Problem{Path: paths[i], Reason: fmt.Sprintf(`"%s" overlaps with "%s"`, name, before[j]), Hint: "leave out one of them"})
		}
		before = append(before, name)
	}
}

func isLocality(name string) bool {
	stars := strings.Count(name, "*")
	return !slices.Contains(strings.SplitN(name, "/", 3), "") && (stars == 0 || stars == 1 && strings.HasSuffix(name, "*"))
}

// localityCovers says whether a locality that is listed leaves no room for another after it.
func localityCovers(listed, next string) bool {
	a, b := strings.SplitN(listed, "/", 3), strings.SplitN(next, "/", 3)
	depth := len(b)
	for len(a) < 3 {
		a = append(a, "*")
	}
	switch {
	case a[0] == "*":
		return true
	case a[0] != b[0]:
		return false
	case depth == 1 || a[1] == "*":
		return true
	case a[1] != b[1]:
		return false
	}
	return depth == 2 || a[2] == "*" || a[2] == b[2]
}
