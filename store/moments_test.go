package store_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
)

func TestThePastThatIsNotKnown(t *testing.T) {
	t.Parallel()
	db := connect(t, pgtest.New(t))
	for _, host := range []string{"a", "b", "c", "d"} {
		db.Put("x", host)
	}
	db.Exec("SELECT mesh.prune(2)")
	for _, test := range []struct{ sql, message, hint string }{
		{"SELECT * FROM mesh.as_of(1)", "the history of revision 1 is gone: it was pruned", "the oldest revision whose state is known is 2, of "},
		{"SELECT * FROM mesh.as_of(5)", "there is no revision 5 yet", "the newest revision is 4"},
		{"SELECT * FROM mesh.as_of(-1)", "there is no revision -1", "revisions count from 1"},
		{"SELECT * FROM mesh.as_of(timestamptz '2001-01-01 00:00:00+00')", "is gone: it was pruned", "the oldest revision whose state is known is 2, of "},
		{"SELECT * FROM mesh.as_of(now() + interval '1 hour')", "is in the future", "the newest revision is 4"},
		{"SELECT * FROM mesh.as_of(1) WHERE name = 'nobody'", "the history of revision 1 is gone: it was pruned", "the oldest revision whose state is known is 2, of "},
		{"SELECT * FROM mesh.diff(1)", "the history of revision 1 is gone: it was pruned", "the oldest revision whose state is known is 2, of "},
		{"SELECT * FROM mesh.diff(3, 9)", "there is no revision 9 yet", "the newest revision is 4"},
		{"SELECT * FROM mesh.restore(1)", "the history of revision 1 is gone: it was pruned", "the oldest revision whose state is known is 2, of "},
		{"SELECT * FROM mesh.revert(2)", "the history of revision 2 is gone", "the oldest revision that can be reverted is 3"},
		{"SELECT * FROM mesh.revert(5)", "there is no revision 5 yet", "the newest revision is 4"},
	} {
		err := db.Refused(test.sql)
		require.Equal(t, "MS004", err.Code, test.sql)
		require.Contains(t, err.Message, test.message)
		require.Contains(t, err.Hint, test.hint)
	}
	empty := connect(t, pgtest.New(t))
	require.Empty(t, collect[string](empty, "SELECT name FROM mesh.restore(now())"), "there is nothing to delete")
	require.Empty(t, empty.state("mesh.as_of(0)"))
	require.Equal(t, "MS004", empty.Refused("SELECT * FROM mesh.as_of(1)").Code)
	require.Empty(t, empty.state("mesh.as_of(now())"))
	require.Equal(t, int64(0), value[int64](empty, "SELECT mesh.prune(10)"))
}

// A time before the first revision is most likely mistaken. Nothing is deleted unless that is what was
// asked for.
func TestRestoreToATimeBeforeTheFirstRevision(t *testing.T) {
	t.Parallel()
	db := connect(t, pgtest.New(t))
	db.Put("x", "a")
	for _, call := range []string{"mesh.restore(timestamptz '2001-01-01 00:00:00+00')", "mesh.restore(timestamptz '-infinity')", "mesh.restore(timestamptz '2001-01-01', names => '{x}')"} {
		err := db.Refused("SELECT * FROM " + call)
		require.Equal(t, "MS004", err.Code, call)
		require.Contains(t, err.Message, "the history does not reach back to ")
		require.Regexp(t, `^the first revision is of 2.*; mesh\.restore\(0\) deletes all that was made since$`, err.Hint)
	}
	require.Equal(t, int64(1), db.Newest())
	require.Equal(t, []string{"delete x"}, collect[string](db, "SELECT operation || ' ' || name FROM mesh.restore(0)"))
}

// In psql one types a time as a literal, which could be a revision as well.
func TestMomentsAsPeopleTypeThem(t *testing.T) {
	t.Parallel()
	db := connect(t, pgtest.New(t))
	for _, host := range []string{"a", "b", "c"} {
		db.Put("x", host)
	}
	// As if the first two were of the day before, whatever the time is now.
	db.Exec("UPDATE mesh_internal.transactions SET time = now() - interval '25 hours' WHERE revision < 3")
	second := value[string](db, "SELECT time::text FROM mesh.revisions WHERE revision = 2")
	hostAt := func(moment string) string {
		t.Helper()
		return value[string](db, "SELECT spec -> 'hosts' ->> 0 FROM mesh.as_of("+moment+")")
	}
	for moment, host := range map[string]string{
		"'1'": "a", "' 3 '": "c", "'now'": "c", "'" + second + "'": "b", "'24 hours ago'": "b", "'-1 day'": "b", "'1 day 10 minutes ago'": "b", "'10 microseconds ago'": "c",
		"1": "a", "2::smallint": "b", "now()": "c", "(now() - interval '24 hours')::timestamp": "b", "text '1'": "a",
	} {
		require.Equal(t, host, hostAt(moment), moment)
	}
	require.Equal(t, hostAt("('today '|| '00:00')::timestamptz"), hostAt("'00:00'"))
	changes := func(call string) []string {
		return collect[string](db, "SELECT concat(before, ' ', after) FROM "+call+" WHERE path = 'spec.hosts[0]'")
	}
	require.Equal(t, []string{`"b" "c"`}, changes("mesh.diff('24 hours ago')"))
	require.Equal(t, []string{`"b" "a"`}, changes("mesh.diff('24 hours ago', '1')"))
	require.Equal(t, []string{`"b" "c"`}, changes("mesh.diff(now() - interval '24 hours', 'now')"))
	require.Equal(t, []string{`"a" "c"`}, changes("mesh.diff(1, '3')"))
	lines := []string{"update VirtualService default/x", `  ~ spec.hosts[0]: "b" -> "c"`, `  ~ spec.http[0].route[0].destination.host: "b" -> "c"`}
	for _, call := range []string{"2", "'2'", "'24 hours ago'", "now() - interval '24 hours'", "'24 hours ago', '3'", "now() - interval '24 hours', kinds => '{VirtualService}'"} {
		require.Equal(t, lines, collect[string](db, "SELECT * FROM mesh.diff_text("+call+")"), call)
	}

	for moment, want := range map[string]string{
		"10 minutes":          `22007 "10 minutes" is neither a revision nor a time: write '10 minutes ago'`,
		"2026-13-01":          `22007 "2026-13-01" is neither a revision nor a time: write a revision, such as 12, or a time, such as '2026-05-01 12:00', '12:00', 'yesterday' or '10 minutes ago'`,
		"last week":           `22007 "last week" is neither a revision nor a time: write a revision, such as 12, or a time, such as '2026-05-01 12:00', '12:00', 'yesterday' or '10 minutes ago'`,
		"4":                   "MS004 there is no revision 4 yet: the newest revision is 3",
		"-1":                  "MS004 there is no revision -1: revisions count from 1; 0 is the empty mesh before the first",
		"9999999999999999999": `22007 "9999999999999999999" is neither a revision nor a time: write a revision, such as 12, or a time, such as '2026-05-01 12:00', '12:00', 'yesterday' or '10 minutes ago'`,
	} {
		for _, call := range []string{"as_of", "diff", "diff_text", "restore"} {
			err := db.Refused("SELECT * FROM mesh." + call + "('" + moment + "')")
			require.Equal(t, want, err.Code+" "+err.Message+": "+err.Hint, call)
		}
	}
	require.Equal(t, "MS004", db.Refused("SELECT * FROM mesh.restore('1999-01-01')").Code)
	require.Equal(t, []string{"update x"}, collect[string](db, "SELECT operation || ' ' || name FROM mesh.restore('24 hours ago')"))
	require.Equal(t, "b", hostAt("'now'"))
	require.Equal(t, []string{"update x"}, collect[string](db, "SELECT operation || ' ' || name FROM mesh.restore('1')"))
	require.Equal(t, "a", hostAt("5"))
}

// Whoever mistakes a time sees an empty mesh, and would take it for one that was emptied.
func TestTimesBeforeTheFirstRevision(t *testing.T) {
	t.Parallel()
	db := connect(t, pgtest.New(t))
	require.Empty(t, db.Notices("SELECT * FROM mesh.as_of('1999-01-01')"), "the mesh is as empty now")

	db.Put("x", "a")
	said := []string{"the mesh was still empty at " + value[string](db, "SELECT timestamptz '1999-01-01'::text") + ", before its first revision, which is of " +
		value[string](db, "SELECT time::text FROM mesh.revisions")}
	for _, call := range []string{"as_of('1999-01-01')", "as_of(timestamptz '1999-01-01')", "diff('1999-01-01')", "diff(timestamptz '1999-01-01')", "diff_text('1999-01-01', '1')"} {
		require.Equal(t, said, db.Notices("SELECT * FROM mesh."+call), call)
	}
	for _, call := range []string{"as_of(0)", "as_of('0')", "as_of(now())", "diff(0)"} {
		require.Empty(t, db.Notices("SELECT * FROM mesh."+call), call)
	}
}

// A query that finds nothing gives NULL, which is no reason to do nothing without a word.
func TestNobodyGoesBackToNULL(t *testing.T) {
	t.Parallel()
	db := connect(t, pgtest.New(t))
	db.Put("x", "a")
	for call, want := range map[string]string{
		"mesh.revert((SELECT max(revision) FROM mesh.revisions WHERE message = 'misspelt'))": "MS004 there is no such revision: NULL",
		"mesh.prune(NULL)":                               "MS004 there is no such revision: NULL",
		"mesh.restore(NULL::bigint)":                     "MS004 there is no such revision: NULL",
		"mesh.restore(NULL)":                             "MS004 there is no such revision or time: NULL",
		"mesh.restore(NULL::timestamptz)":                "MS004 there is no such time: NULL",
		"mesh.as_of(NULL::bigint)":                       "MS004 there is no such revision: NULL",
		"mesh.as_of(NULL)":                               "MS004 there is no such revision or time: NULL",
		"mesh.as_of(NULL::timestamptz)":                  "MS004 there is no such time: NULL",
		"mesh.diff(NULL::bigint, 1)":                     "MS004 there is no such revision: NULL",
		"mesh.diff(NULL, '1')":                           "MS004 there is no such revision or time: NULL",
		"mesh.diff(NULL::timestamptz)":                   "MS004 there is no such time: NULL",
		"mesh.diff_text(NULL)":                           "MS004 there is no such revision or time: NULL",
		"mesh.diff_text(NULL::timestamptz)":              "MS004 there is no such time: NULL",
		"mesh.restore(1, names => ARRAY['x', NULL])":     "MS010 there is no such name: NULL",
		"mesh.diff(1, kinds => NULL, names => '{NULL}')": "MS010 there is no such name: NULL",
	} {
		err := db.Refused("SELECT * FROM " + call)
		require.Equal(t, want, err.Code+" "+err.Message, call)
		require.NotEmpty(t, err.Hint, call)
	}
}
