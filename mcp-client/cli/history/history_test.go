package history_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/clitest"
)

func TestHistory(t *testing.T) {
	t.Parallel()
	m := clitest.Eventful(t)
	lines := strings.Split(clitest.WithoutClocks(m.OK("history")), "\n")
	require.Len(t, lines, 6)
	require.Regexp(t, `^REVISION   TIME +AUTHOR +RESOURCES   CHANGED +MESSAGE$`, lines[0])
	require.Regexp(t, `^4 +<time> +\S+ +1 +virtualservice prod/reviews deleted +prod is gone$`, lines[1])
	require.Regexp(t, `^3 +<time> +\S+ +1 +virtualservice default/ratings created +ratings are new$`, lines[2])
	require.Regexp(t, `^1 +<time> +\S+ +2 +virtualservice default/reviews created, virtualservice prod/reviews created +the first$`, lines[4])
	require.Regexp(t, `(?m)^1 +.* 2 +virtualservice prod/reviews created +the first$`, m.OK("history", "-n", "prod"), "of what is asked for")
	require.Contains(t, m.OK("history", "-o", "wide"), "mcp-client")
	require.Equal(t, "4\n3\n2\n1\n", m.OK("history", "-o", "name"))
	for want, args := range map[string][]string{
		"2\n1\n":    {"vs/reviews"},
		"4\n1\n":    {"vs/reviews", "-n", "prod"},
		"4\n2\n1\n": {"vs", "reviews", "prod/reviews"},
		"3\n2\n1\n": {"vs"},
		"4\n":       {"--limit", "1"},
		"2\n":       {"--message", "CANARY"},
		"":          {"--author", "nobody"},
	} {
		require.Equal(t, want, m.OK(append([]string{"history", "-o", "name"}, args...)...), "%v", args)
	}
	require.Equal(t, "4\n3\n2\n1\n", m.OK("history", "-o", "name", "--since", "1h"))
	require.Equal(t, "4\n3\n2\n1\n", m.OK("history", "-o", "name", "--since", "7d"))
	require.Empty(t, m.OK("history", "-o", "name", "--until", "1h"))
	require.Equal(t, "4\n3\n2\n1\n", m.OK("history", "-o", "name", "--kind", "vs"))
	require.Equal(t, "4\n1\n", m.OK("history", "-o", "name", "-n", "prod"))
	require.Equal(t, clitest.Result{Err: "no revision found\n"}, m.Run("history", "wasmplugins"))
	m.Execute("INSERT INTO mesh.workload_entries (namespace, name, address) SELECT 'many', 'w' || i, '10.0.0.1' FROM generate_series(1, 5) i")
	require.Contains(t, m.OK("history", "--limit", "1"), "workloadentry many/w1 created, workloadentry many/w2 created and 3 more")
}

func TestHistoryShowsChanges(t *testing.T) {
	t.Parallel()
	m := clitest.Eventful(t)
	require.Regexp(t, `^revision 4  <time>  \S+ \(mcp-client.*\)
    prod is gone
  deleted  virtualservice prod/reviews
revision 3  <time>  \S+ \(mcp-client.*\)
    ratings are new
    and more
  created  virtualservice default/ratings
$`, clitest.WithoutClocks(m.OK("history", "--changes", "--limit", "2")))
	shown := m.OK("history", "vs/reviews", "--diff", "--limit", "1")
	require.Contains(t, shown, "    -        host: v1\n    +        host: v2\n")
	var list []struct {
		Revision int
		Message  string
		Changes  []struct{ Action, Name, Diff string }
	}
	require.NoError(t, json.Unmarshal([]byte(m.OK("history", "vs/reviews", "--diff", "-o", "json")), &list))
	require.Len(t, list, 2)
	require.Equal(t, "changed", list[0].Changes[0].Action)
	require.Len(t, list[1].Changes, 1, "the other resources of the revision were not asked for")
	require.Equal(t, 2, m.Run("history", "--since", "yesterday").Code)
	require.Equal(t, 2, m.Run("history", "nothing").Code)
}

// A history of many revisions, and a revision of many changes, are complete.
func TestLongHistory(t *testing.T) {
	t.Parallel()
	m := clitest.Start(t)
	m.Execute(`DO $$ BEGIN FOR i IN 1..1100 LOOP
		PERFORM set_config('mesh.message', 'number ' || i, true);
		INSERT INTO mesh.workload_entries (namespace, name, address) VALUES ('default', 'w' || i, '10.0.0.1');
		COMMIT;
	END LOOP; END $$`)
	require.Equal(t, 1100, strings.Count(m.OK("history", "--limit", "0", "-o", "name"), "\n"))
	require.Equal(t, 1050, strings.Count(m.OK("history", "--limit", "1050", "-o", "name"), "\n"))
	newest := m.Run("history", "-o", "name")
	require.Equal(t, 20, strings.Count(newest.Out, "\n"))
	require.Equal(t, "there are older ones; --limit 200 shows more, and --limit 0 all\n", newest.Err)
	require.Contains(t, m.Run("history", "--limit", "1050", "-o", "name").Err, "there are older ones")
	require.Contains(t, m.Run("history", "we", "-o", "name").Err, "there are older ones", "of a query, too")
	for _, whole := range [][]string{{"--limit", "1100"}, {"--limit", "0"}, {"--message", "number 1100", "--limit", "1"}, {"we", "w7", "--limit", "1"}} {
		require.Empty(t, m.Run(append([]string{"history", "-o", "name"}, whole...)...).Err, "%v", whole)
	}
	r := m.Run("diff", "1", "-o", "name")
	require.Equal(t, 1, r.Code, r.Err)
	require.Equal(t, 1099, strings.Count(r.Out, "\n"))
	dry := m.OK("restore", "--to", "1", "--dry-run", "-o", "name")
	require.Equal(t, 1099, strings.Count(dry, "\n"))
}

// What machines change is left out unless it was asked for.
func TestHistoryOfPeople(t *testing.T) {
	t.Parallel()
	m := clitest.Start(t)
	m.Execute(`INSERT INTO mesh.workload_groups (namespace, name, spec) VALUES ('shop', 'cart', '{"template": {}}')`)
	m.Register(m.Store()) // each of the two machines is a revision
	m.Execute(`INSERT INTO mesh.workload_entries (namespace, name, address) VALUES ('shop', 'mine', '10.0.0.9')`)
	// A change of people that machines follow is one of people.
	m.Execute(`UPDATE mesh.workload_groups SET spec = '{"template": {"labels": {"a": "b"}}}'`)

	require.Equal(t, clitest.Result{Out: "5\n4\n1\n", Err: "and 2 changes by machines; --machines shows them\n"}, m.Run("history", "-o", "name"))
	require.Equal(t, clitest.Result{Out: "5\n4\n", Err: "there are older ones; --limit 20 shows more, and --limit 0 all\n"}, m.Run("history", "-o", "name", "--limit", "2"), "those below are not meant")
	require.Equal(t, clitest.Result{Out: "5\n4\n1\n", Err: "and 2 changes by machines; --machines shows them\n"}, m.Run("history", "-o", "name", "-n", "shop"))
	require.Equal(t, clitest.Result{Out: "5\n4\n3\n2\n1\n"}, m.Run("history", "-o", "name", "--machines"))
	require.Equal(t, clitest.Result{Out: "5\n2\n"}, m.Run("history", "-o", "name", "we/cart-10.0.0.1", "-n", "shop"))
	require.Equal(t, clitest.Result{Out: "5\n4\n3\n2\n"}, m.Run("history", "-o", "name", "--kind", "workloadentry"))

	var revisions, machines string
	m.Query(`SELECT string_agg(revision::text, ' ' ORDER BY revision) FROM mesh.revisions WHERE by_machines`, &revisions)
	require.Equal(t, "2 3", revisions)
	m.Query(`SELECT string_agg(revision || ' ' || coalesce(machine, '-'), ', ' ORDER BY revision, name) FROM mesh.history WHERE kind = 'WorkloadEntry'`, &machines)
	require.Equal(t, "2 cart-1, 3 cart-2, 4 -, 5 cart-1, 5 cart-2", machines)
}
