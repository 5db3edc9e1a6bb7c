package explain

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/conformance/recording"
)

// answers are of one listener in a case that asks for dual stack and has a Telemetry.
func answers(istiod, discovery map[string]any) (*Case, *recording.Recording, *recording.Recording) {
	of := func(tree map[string]any) *recording.Recording {
		r := &recording.Recording{Kinds: map[string]bool{"LDS": true}, Resources: map[recording.Resource]map[string]any{}}
		if tree != nil {
			r.Resources[recording.Resource{Kind: "LDS", Name: "in"}] = tree
		}
		return r
	}
	c := &Case{ID: "one-1", Env: map[string]string{"DUAL": "true"}, kinds: map[string]bool{"Telemetry": true}}
	return c, of(istiod), of(discovery)
}

func explanations(t *testing.T, text string) Explanations {
	t.Helper()
	all, err := parse([]byte(text))
	require.NoError(t, err)
	return all
}

func filters(names ...string) map[string]any {
	var list []any
	for _, n := range names {
		list = append(list, map[string]any{"name": n, "config": map[string]any{"prefix": n + ";Kubernetes"}})
	}
	return map[string]any{"filters": list}
}

func TestADifferenceIsExplainedOnlyWhereItsExplanationApplies(t *testing.T) {
	t.Parallel()
	for name, when := range map[string]string{
		"cases": `{cases: '^one-'}`, "env": `{env: DUAL=true}`, "kind": `{kind: Telemetry}`, "not env": `{env: '!DUAL=false'}`, "without": `{without: ISTIO_VERSION}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := explanations(t, `[{why: w, when: `+when+`, in: [LDS], resource: '^in$', changes: [{at: '**/name=stats', of: recorded, remove: true}]}]`)
			require.Empty(t, all.Compare(answers(filters("a", "stats"), filters("a"))))
			require.Equal(t, 1, all.Uses())
			require.Empty(t, all.Unneeded())
		})
	}
	for name, when := range map[string]string{
		"cases": `{cases: '^two-'}`, "env": `{env: DUAL=false}`, "kind": `{kind: Gateway}`, "not env": `{env: '!DUAL=true'}`,
	} {
		t.Run("not by "+name, func(t *testing.T) {
			t.Parallel()
			all := explanations(t, `[{why: w, when: `+when+`, changes: [{at: '**/name=stats', of: recorded, remove: true}]}]`)
			require.Equal(t, []string{"LDS in: filters: istiod 2 items (a, stats), discovery 1 items (a)"}, all.Compare(answers(filters("a", "stats"), filters("a"))))
			require.Len(t, all.Unneeded(), 1)
		})
	}
}

func TestWhatAnExplanationLeavesIsUnexplained(t *testing.T) {
	t.Parallel()
	all := explanations(t, `[{why: w, changes: [{at: '**/name=stats', of: recorded, remove: true}]}]`)
	require.Equal(t, []string{"LDS in: filters/0/config/prefix: istiod a;Kubernetes, discovery b;Kubernetes", "LDS in: filters/0/name: istiod a, discovery b"},
		all.Compare(answers(filters("a", "stats"), filters("b"))))
}

func TestEachChangeDoesItsThing(t *testing.T) {
	t.Parallel()
	nested := map[string]any{"any": map[string]any{"rules": []any{map[string]any{"is": "x"}, map[string]any{"is": "x."}}}}
	for name, c := range map[string]struct {
		change            string
		istiod, discovery map[string]any
	}{
		"remove the last item":    {`{at: filters/name=a, of: recorded, remove: true}`, filters("a"), map[string]any{}},
		"remove by a number":      {`{at: filters/1, of: served, remove: true}`, filters("a"), filters("a", "b")},
		"remove by a beginning":   {`{at: filters/config.prefix=b;*, of: served, remove: true}`, filters("a"), filters("a", "b")},
		"rewrite":                 {`{at: 'filters/*/config/prefix', of: both, rewrite: {pattern: '.*', by: same}}`, map[string]any{"filters": []any{map[string]any{"config": map[string]any{"prefix": "1"}}}}, map[string]any{"filters": []any{map[string]any{"config": map[string]any{"prefix": "2"}}}}},
		"keep a part":             {`{at: any, of: served, keep: rules/0}`, map[string]any{"any": map[string]any{"is": "x"}}, nested},
		"any depth, also nothing": {`{at: '**/only', of: served, remove: true}`, map[string]any{"deep": map[string]any{"x": "y"}}, map[string]any{"only": "z", "deep": map[string]any{"x": "y", "only": "z"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := explanations(t, `[{why: w, changes: [`+c.change+`]}]`)
			require.Empty(t, all.Compare(answers(c.istiod, c.discovery)))
		})
	}
}

func TestAResourceThatOnlyOneSideHas(t *testing.T) {
	t.Parallel()
	all := explanations(t, `[{why: w, in: [LDS], only: served}]`)
	require.Empty(t, all.Compare(answers(nil, filters("a"))))
	require.Equal(t, []string{"LDS in: only istiod has it"}, all.Compare(answers(filters("a"), nil)))
	c, istiod, discovery := answers(filters("a"), nil)
	istiod.Kinds["LDS"] = false
	require.Empty(t, all.Compare(c, istiod, discovery), "istiod was not asked for listeners")
}

func TestAFailureIsExplainedByItsWords(t *testing.T) {
	t.Parallel()
	all := explanations(t, `[{why: w, when: {cases: one}, fails: 'unknown proxy type'}]`)
	require.Equal(t, []string{"another"}, all.Fails(&Case{ID: "one"}, []string{"x: unknown proxy type y", "another"}))
	require.Equal(t, []string{"x: unknown proxy type y"}, all.Fails(&Case{ID: "two"}, []string{"x: unknown proxy type y"}))
}

func TestAnUnsoundExplanationIsRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, complaint string }{
		{`[{fails: x}]`, "says no reason"},
		{`[{why: w}]`, "explains nothing"},
		{`[{why: w, only: neither}]`, "want recorded or served"},
		{`[{why: w, fails: x, when: {env: DUAL}}]`, "want NAME=value"},
		{`[{why: w, fails: '('}]`, "missing closing"},
		{`[{why: w, fails: x, wen: {}}]`, "field wen not found"},
		{`[{why: w, changes: [{of: both}]}]`, "has no path"},
		{`[{why: w, changes: [{at: a, of: both}]}]`, "does 0 things"},
		{`[{why: w, changes: [{at: a, remove: true}]}]`, "want recorded, served or both"},
		{`[{why: w, changes: [{at: a, of: both, remove: true, keep: b}]}]`, "does 2 things"},
	} {
		_, err := parse([]byte(c.text))
		require.ErrorContains(t, err, c.complaint, c.text)
	}
}

func TestTheExplanationsAreSound(t *testing.T) {
	t.Parallel()
	all, err := Load()
	require.NoError(t, err)
	require.NotEmpty(t, all)
}
