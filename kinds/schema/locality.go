package schema

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// localities checks the locality distribution of a load balancer: each name must be a locality,
// localities must not overlap, and the weights of each source must add up to 100.
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
		found.weights(at+".to", to)
	}
	found.disjoint(from, paths)
	return found
}

type localityCheck []Problem

func (c *localityCheck) weights(path string, to map[string]any) {
	var names, paths []string
	total := int64(0)
	for _, name := range slices.Sorted(maps.Keys(to)) {
		names, paths = append(names, name), append(paths, Member(path, name))
		weight, _ := to[name].(json.Number)
		share, _ := weight.Int64() // the range was checked with the structure
		total += share
	}
	if total != 100 {
		*c = append(*c, Problem{Path: path, Reason: fmt.Sprintf("the weights add up to %d, not to 100", total)})
	}
	c.disjoint(names, paths)
}

// disjoint demands that no locality is covered by one before it.
func (c *localityCheck) disjoint(names, paths []string) {
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

// localityCovers reports whether a listed locality covers the next one.
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
