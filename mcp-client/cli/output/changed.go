package output

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/pgmesh/pgmesh/internal/kit/terminal"
	"github.com/pgmesh/pgmesh/kinds"
)

const (
	mostFields  = 5  // that ChangedFields lists
	longestLeaf = 40 // of a value in a line
)

// ChangedFields says in a line each which fields of a resource differ, and how: "spec.http[0].timeout: 1s -> 2s". Of many
// it lists the first.
func ChangedFields(before, after *kinds.Resource) ([]string, error) {
	was, err := leavesOf(before)
	if err != nil {
		return nil, err
	}
	is, err := leavesOf(after)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, path := range slices.Sorted(maps.Keys(union(was, is))) {
		if was[path] != is[path] {
			all = append(all, fmt.Sprintf("%s: %s -> %s", path, orNone(was[path]), orNone(is[path])))
		}
	}
	if more := len(all) - mostFields; more > 0 {
		all = append(all[:mostFields], fmt.Sprintf("and %d more fields", more))
	}
	return all, nil
}

func union(a, b map[string]string) map[string]string {
	both := maps.Clone(a)
	maps.Copy(both, b)
	return both
}

func orNone(leaf string) string {
	if leaf == "" {
		return "(none)"
	}
	return leaf
}

// leavesOf has the values of a resource by their paths.
func leavesOf(r *kinds.Resource) (map[string]string, error) {
	spec, err := specTree(r)
	if err != nil {
		return nil, err
	}
	leaves := map[string]string{}
	addLeaves(leaves, "spec", spec)
	for of, texts := range map[string]map[string]string{"metadata.labels.": r.Labels, "metadata.annotations.": r.Annotations} {
		for name, value := range texts {
			leaves[of+name] = leaf(value)
		}
	}
	return leaves, nil
}

func addLeaves(to map[string]string, path string, tree any) {
	switch tree := tree.(type) {
	case map[string]any:
		for name, value := range tree {
			addLeaves(to, path+"."+name, value)
		}
		if len(tree) > 0 {
			return
		}
	case []any:
		for i, value := range tree {
			addLeaves(to, path+"["+strconv.Itoa(i)+"]", value)
		}
		if len(tree) > 0 {
			return
		}
	}
	to[path] = leaf(tree)
}

// leaf is a value in a line.
func leaf(value any) string {
	text, is := value.(string)
	if !is || text == "" {
		written, err := json.Marshal(value)
		if err != nil {
			panic(err) // it was read from JSON
		}
		text = string(written)
	}
	if short := []rune(terminal.Line(text)); len(short) > longestLeaf {
		return string(short[:longestLeaf]) + "…"
	}
	return terminal.Line(text)
}
