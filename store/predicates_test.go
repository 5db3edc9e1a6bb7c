package store_test

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/kinds/schema"
	"github.com/pgmesh/pgmesh/kinds/schema/predicate"
)

// variables are all that a predicate of a rule may name.
var variables = []string{"meta", "i", "key", "item", "parent"}

// Each predicate of a rule means in Go what it means in Postgres, also of trees that no document has.
func TestPredicatesMeanWhatTheyMeanInPostgres(t *testing.T) {
	t.Parallel()
	db := connect(t, pgtest.New(t))
	of := map[bool]int{}
	for _, text := range predicates() {
		p, err := predicate.Parse(text, variables...)
		require.NoError(t, err, text)
		trees := randomTrees(text, 60)
		var want []bool
		require.NoError(t, db.Conn.QueryRow(t.Context(), `SELECT array_agg(coalesce(jsonb_path_match(tree, $1::jsonpath, tree || '{"i": 1}', true), false) ORDER BY n)
			FROM unnest($2::jsonb[]) WITH ORDINALITY AS t (tree, n)`, text, trees).Scan(&want), text)
		for i, tree := range trees {
			require.Equal(t, want[i], holds(t, p, tree), "%s of %s", text, tree)
			of[want[i]]++
		}
	}
	t.Logf("of random trees predicates hold %d times, and %d times they do not", of[true], of[false])
	require.Greater(t, of[true], 1000)
}

// predicates are those of all rules.
func predicates() []string {
	all := map[string]bool{}
	for _, typ := range schema.Types() {
		for _, r := range typ.Rules {
			all[r.When], all[r.Wrong] = true, true
		}
	}
	for _, u := range schema.AllUnsupported() {
		all[u.When] = true
	}
	delete(all, "")
	return slices.Sorted(maps.Keys(all))
}

func holds(t testing.TB, p *predicate.Predicate, text string) bool {
	t.Helper()
	var tree map[string]any
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	require.NoError(t, decoder.Decode(&tree))
	values := []any{tree["meta"], int64(1)}
	for _, name := range variables[2:] {
		values = append(values, tree[name])
	}
	return p.Holds(tree, values...)
}

var (
	memberNames = regexp.MustCompile(`[.$]([A-Za-z0-9]+|"[^"]+")`)
	literals    = regexp.MustCompile(`"[^"\\]*"`)
)

// randomTrees are objects of the members that a predicate names, and of what it compares them with. The
// values of the variables are members, too.
func randomTrees(text string, many int) []string {
	g := growing{Rand: rand.New(rand.NewPCG(1, uint64(len(text)))), values: []any{"", "x", "10.0.0.1", 0, 1, 2.5, true, nil}}
	for _, name := range memberNames.FindAllStringSubmatch(text, -1) {
		g.names = append(g.names, strings.Trim(name[1], `"`))
	}
	for _, value := range literals.FindAllString(text, -1) {
		value = strings.Trim(value, `"`)
		g.values = append(g.values, value, value, strings.Trim(value, "^$()")+"x")
	}
	out := make([]string, many)
	for i := range out {
		tree := map[string]any{}
		for _, name := range variables {
			tree[name] = g.tree(2)
		}
		maps.Copy(tree, g.object(3))
		written, err := json.Marshal(tree)
		if err != nil {
			panic(err)
		}
		out[i] = string(written)
	}
	return out
}

// growing makes trees of names and values.
type growing struct {
	*rand.Rand

	names  []string
	values []any
}

func (g *growing) tree(deep int) any {
	switch n := g.IntN(6); {
	case deep > 0 && n < 2:
		return g.object(deep - 1)
	case deep > 0 && n < 3:
		list := make([]any, g.IntN(4))
		for i := range list {
			list[i] = g.tree(deep - 1)
		}
		return list
	}
	return g.values[g.IntN(len(g.values))]
}

func (g *growing) object(deep int) map[string]any {
	out := map[string]any{}
	for _, name := range g.names {
		if g.IntN(3) > 0 {
			out[name] = g.tree(deep)
		}
	}
	return out
}
