package store_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
)

// A new route behind one for everything else is told of when it is written, once.
func TestANewRouteThatIsNeverReachedIsToldOf(t *testing.T) {
	t.Parallel()
	db := connect(t, pgtest.New(t))
	db.create("ServiceEntry", "default", "reviews", reviews)
	db.create("VirtualService", "default", "r", `{"hosts": ["r"], "http": [{"name": "all", "route": [{"destination": {"host": "reviews"}}]}]}`)
	const insert = `INSERT INTO mesh.routes (namespace, virtual_service, name, match, redirect) VALUES ('default', 'r', 'canary', '[{"uri": {"prefix": "/canary"}}]', '{"uri": "/"}')`
	const says = `VirtualService default/r: spec.http[1]: the route "canary" is never reached: the route "all" before it matches all that it does`
	const pending = "SELECT concat_ws(' ', refused, severity, code, path, hint) FROM mesh.pending_problems()"
	db.Exec("INSERT INTO mesh.settings (name, value) VALUES ('strict_references', 'on'); BEGIN; " + insert)
	require.Equal(t, []string{"f warning unreachable-route spec.http[1] put it before spec.http[0], or let that match less"}, collect[string](db, pending))
	db.Exec("ROLLBACK")
	require.Equal(t, []string{says}, db.Notices(insert))
	require.Empty(t, db.Notices("UPDATE mesh.virtual_services SET labels = '{\"a\": \"b\"}' WHERE name = 'r'"))
	require.Equal(t, []string{"spec.http[1]"}, collect[string](db, "SELECT path FROM mesh.problems"))

	// What another route asks for is told of as well, without a new name in it.
	db.Exec("UPDATE mesh.routes SET match = '[{\"uri\": {\"prefix\": \"/b\"}}]' WHERE name = 'all'")
	require.Empty(t, collect[string](db, "SELECT path FROM mesh.problems"))
	require.Equal(t, []string{says}, db.Notices("UPDATE mesh.routes SET match = NULL WHERE name = 'all'"))
}

// Commits of usual routes do not wait for the whole look, which takes longer than all else that they do.
func TestUsualRoutesAreNotLookedAtWhole(t *testing.T) {
	t.Parallel()
	db := connect(t, pgtest.New(t))
	looks := func(name, http string) string {
		return db.calls(fmt.Sprintf(`INSERT INTO mesh.resources (kind, namespace, name, spec) VALUES ('VirtualService', 'default', '%s', '{"hosts": ["%[1]s"], "http": [%s]}');
			SET CONSTRAINTS ALL IMMEDIATE`, name, http), "new_unreachable", "unreachable_routes")
	}
	const usual = "{new_unreachable=1}"
	require.Equal(t, usual, looks("paths", leading(`{"uri": {"prefix": "/a"}}`)+", "+leading(`{"uri": {"exact": "/b"}}`)+", "+leading("")))
	require.Equal(t, usual, looks("canary", leading(`{"headers": {"end-user": {"exact": "jason"}}}`)+", "+leading("")))
	require.Equal(t, usual, looks("delegates", `{"match": [{"uri": {"prefix": "/"}}], "delegate": {"name": "all"}}, `+leading("")))
	require.Contains(t, looks("hidden", leading("")+", "+leading(`{"uri": {"prefix": "/a"}}`)), "unreachable_routes=")
}

// The quick look misses nothing that the whole look finds, in whatever routes.
func TestTheQuickLookMissesNoUnreachableRoute(t *testing.T) {
	t.Parallel()
	db := connect(t, pgtest.New(t))
	dice := rand.New(rand.NewPCG(11, 11))
	specs := make([]string, 10000)
	for i := range specs {
		specs[i] = randomRoutes(dice)
	}
	const found = `SELECT DISTINCT s.spec::text, mesh_internal.may_be_unreachable(s.spec) FROM unnest($1::jsonb[]) s (spec), mesh_internal.unreachable_routes(s.spec)`
	missed := collect[string](db, `SELECT spec FROM (`+found+`) f (spec, may) WHERE NOT may`, specs)
	require.Empty(t, missed)
	require.Greater(t, value[int](db, `SELECT count(*) FROM (`+found+`) f`, specs), 400, "the dice make too few for this to say much")
	require.Greater(t, value[int](db, "SELECT count(*) FROM unnest($1::jsonb[]) s (spec) WHERE NOT mesh_internal.may_be_unreachable(spec)", specs), 100, "the quick look passes hardly any")
}

// randomRoutes is a spec whose routes have much in common.
func randomRoutes(dice *rand.Rand) string {
	conditions := map[string][]string{
		"uri":            {`{"prefix": "/"}`, `{"prefix": "/a"}`, `{"prefix": "/A/b"}`, `{"exact": "/a"}`, `{"exact": "/a/b"}`, `{"regex": ".*"}`, `{"regex": "/x+"}`, `{"prefix": ""}`, `{}`},
		"ignoreUriCase":  {"true", "false"},
		"name":           {`"m"`, `""`},
		"port":           {"1", "2"},
		"method":         {`{"exact": "GET"}`, `{}`},
		"headers":        {`{"a": {"exact": "1"}}`, `{"a": {"exact": "1"}, "b": {}}`, `{"a": {}}`, `{}`},
		"withoutHeaders": {`{"a": {}}`, `{"a": {}, "b": {}}`},
		"gateways":       {`["mesh"]`, `["mesh", "g"]`, `[]`},
		"sourceLabels":   {`{"app": "a"}`, `{"app": "a", "v": "1"}`, "null"},
	}
	names := slices.Sorted(maps.Keys(conditions))
	match := func() string {
		var parts []string
		for _, name := range names {
			likely := name == "uri" || name == "ignoreUriCase"
			if likely == (dice.IntN(6) > 0) {
				parts = append(parts, fmt.Sprintf("%q: %s", name, conditions[name][dice.IntN(len(conditions[name]))]))
			}
		}
		return "{" + strings.Join(parts, ", ") + "}"
	}
	all := make([]string, 2+dice.IntN(2))
	for i := range all {
		switch dice.IntN(8) {
		case 0:
			all[i] = fmt.Sprintf(`{"name": "r%d"}`, i)
		case 1:
			all[i] = fmt.Sprintf(`{"name": "r%d", "delegate": {"name": "d"}, "match": [%s]}`, i, match())
		case 2:
			all[i] = fmt.Sprintf(`{"name": "r%d", "match": [%s, %s]}`, i, match(), match())
		default:
			all[i] = fmt.Sprintf(`{"name": "r%d", "match": [%s]}`, i, match())
		}
	}
	return fmt.Sprintf(`{"hosts": ["a"], %q: [%s]}`, []string{"http", "tls", "tcp"}[dice.IntN(3)], strings.Join(all, ", "))
}

// leading is a route with a match, or, with none, one for all requests.
func leading(match string) string {
	if match == "" {
		return `{"redirect": {"uri": "/"}}`
	}
	return fmt.Sprintf(`{"match": [%s], "redirect": {"uri": "/"}}`, match)
}
