package predicate_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/theory/sqljson/path"
	"github.com/theory/sqljson/path/exec"

	"github.com/pgmesh/pgmesh/kinds/schema/predicate"
)

// reckoned is a subscript that is no plain number. The library takes one that cannot be evaluated for 0.
var reckoned = regexp.MustCompile(`\[[^\]]*[^]*0-9 to]`)

// FuzzHolds holds predicates to the library that reads them, which evaluates them, too, and more slowly.
func FuzzHolds(f *testing.F) {
	for _, e := range examples {
		for _, text := range append(e.holds, e.not...) {
			f.Add(e.predicate, text)
		}
	}
	f.Fuzz(func(t *testing.T, text, tree string) {
		p, err := predicate.Parse(text, names...)
		if err != nil || reckoned.MatchString(text) || !json.Valid([]byte(tree)) || len(tree) > 1000 {
			return
		}
		root, values := given(t, tree)
		if !askable(root) {
			return
		}
		variables := exec.Vars{}
		for i, name := range names {
			variables[name] = values[i]
		}
		want, err := path.MustParse(text).Match(t.Context(), root, exec.WithSilent(), exec.WithVars(variables))
		require.Equal(t, err == nil && want, p.Holds(root, values...), "%s of %s", text, tree)
	})
}

// askable reports whether the library can be asked of a tree. It passes over null in lists, where
// Postgres does not, cannot compare numbers that are too large, and finds ends of lines where Postgres
// does not (see pattern.go).
func askable(tree any) bool {
	switch tree := tree.(type) {
	case []any:
		for _, item := range tree {
			if item == nil || !askable(item) {
				return false
			}
		}
	case map[string]any:
		for _, value := range tree {
			if !askable(value) {
				return false
			}
		}
	case string:
		return !strings.Contains(tree, "\n")
	case json.Number:
		_, err := tree.Float64()
		return err == nil
	}
	return true
}
