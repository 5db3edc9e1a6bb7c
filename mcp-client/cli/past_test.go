package cli_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// eventful is a mesh with the revisions 1 to 4.
func eventful(t *testing.T) *mesh {
	t.Helper()
	m := start(t)
	for i, change := range []struct{ documents, message string }{
		{virtualService("default", "reviews", "v1") + both + virtualService("prod", "reviews", "v1"), "the first"},
		{virtualService("default", "reviews", "v2"), "canary: v2"},
		{virtualService("default", "ratings", "v1"), "ratings are new\nand more"},
	} {
		r := m.pipe(change.documents, "apply", "-f", "-", "-m", change.message)
		require.Zero(t, r.code, r.err)
		m.await(int64(i + 1))
	}
	m.ok("delete", "vs/prod/reviews", "-m", "prod is gone")
	m.await(4)
	return m
}

var clock = regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d`)

func withoutClocks(text string) string { return clock.ReplaceAllString(text, "<time>") }

func TestHistory(t *testing.T) {
	t.Parallel()
	m := eventful(t)
	lines := strings.Split(withoutClocks(m.ok("history")), "\n")
	require.Len(t, lines, 6)
	require.Regexp(t, `^REVISION   TIME +AUTHOR +RESOURCES   MESSAGE$`, lines[0])
	require.Regexp(t, `^4 +<time> +\S+ +1 +prod is gone$`, lines[1])
	require.Regexp(t, `^3 +<time> +\S+ +1 +ratings are new$`, lines[2])
	require.Contains(t, m.ok("history", "-o", "wide"), "mcp-client")
	require.Equal(t, "4\n3\n2\n1\n", m.ok("history", "-o", "name"))
	for want, args := range map[string][]string{
		"2\n1\n":    {"vs/reviews"},
		"4\n1\n":    {"vs/reviews", "-n", "prod"},
		"4\n2\n1\n": {"vs", "reviews", "prod/reviews"},
		"3\n2\n1\n": {"vs"},
		"4\n":       {"--limit", "1"},
		"2\n":       {"--message", "CANARY"},
		"":          {"--author", "nobody"},
	} {
		require.Equal(t, want, m.ok(append([]string{"history", "-o", "name"}, args...)...), "%v", args)
	}
	require.Equal(t, "4\n3\n2\n1\n", m.ok("history", "-o", "name", "--since", "1h"))
	require.Empty(t, m.ok("history", "-o", "name", "--until", "1h"))
	require.Equal(t, "4\n3\n2\n1\n", m.ok("history", "-o", "name", "--kind", "vs"))
	require.Equal(t, "4\n1\n", m.ok("history", "-o", "name", "-n", "prod"))
	require.Equal(t, result{err: "no revision found\n"}, m.run("history", "wasmplugins"))
}

func TestHistoryShowsChanges(t *testing.T) {
	t.Parallel()
	m := eventful(t)
	require.Regexp(t, `^revision 4  <time>  \S+ \(mcp-client.*\)
    prod is gone
  deleted  virtualservice prod/reviews
revision 3  <time>  \S+ \(mcp-client.*\)
    ratings are new
    and more
  created  virtualservice default/ratings
$`, withoutClocks(m.ok("history", "--changes", "--limit", "2")))
	shown := m.ok("history", "vs/reviews", "--diff", "--limit", "1")
	require.Contains(t, shown, "    -        host: v1\n    +        host: v2\n")
	var list []struct {
		Revision int
		Message  string
		Changes  []struct{ Action, Name, Diff string }
	}
	require.NoError(t, json.Unmarshal([]byte(m.ok("history", "vs/reviews", "--diff", "-o", "json")), &list))
	require.Len(t, list, 2)
	require.Equal(t, "changed", list[0].Changes[0].Action)
	require.Len(t, list[1].Changes, 1, "the other resources of the revision were not asked for")
	require.Equal(t, 2, m.run("history", "--since", "yesterday").code)
	require.Equal(t, 2, m.run("history", "nothing").code)
}

func TestDiffOfRevisions(t *testing.T) {
	t.Parallel()
	m := eventful(t)
	r := m.run("diff", "1", "2")
	require.Equal(t, result{1, `revision 1 to 2
virtualservice default/reviews changed
  spec.http[0].route[0].destination.host: v1 -> v2
`, ""}, r)
	r = m.run("diff", "2")
	require.Equal(t, 1, r.code)
	require.Contains(t, r.out, "revision 2 to 4\n")
	require.Contains(t, r.out, "virtualservice default/ratings created\n  + ")
	require.Contains(t, r.out, "virtualservice prod/reviews deleted\n  - ")
	require.Equal(t, "virtualservice.networking.istio.io/prod/reviews\n", m.run("diff", "2", "-n", "prod", "-o", "name").out)
	require.Equal(t, result{out: "revision 2 to 4\n"}, m.run("diff", "2", "--kind", "dr"))
	require.Zero(t, m.run("diff", "3", "3").code)
	require.Contains(t, m.run("diff", "2", "1", "--color", "always").out, "\x1b[32mv1\x1b[0m")
	var answer struct {
		From, To  int
		Resources []struct {
			Operation string
			Fields    []struct{ Path, Before, After string }
		}
	}
	require.NoError(t, json.Unmarshal([]byte(m.run("diff", "1", "2", "-o", "json").out), &answer))
	require.Equal(t, "v2", answer.Resources[0].Fields[0].After)
	r = m.run("diff", "99")
	require.Equal(t, 6, r.code)
	require.Contains(t, r.err, "99")
	require.Equal(t, 1, m.run("diff", "0s", "1").code, "a time is a moment too")
}

func TestBlame(t *testing.T) {
	t.Parallel()
	m := eventful(t)
	out := withoutClocks(m.ok("blame", "vs/reviews", "-o", "wide"))
	require.Regexp(t, `(?m)^REVISION +TIME +AUTHOR +FIELD +VALUE +MESSAGE$`, out)
	require.Regexp(t, `(?m)^2 +<time> +\S+ +spec\.http\[0\]\.route\[0\]\.destination\.host +v2 +canary: v2$`, out)
	require.Regexp(t, `(?m)^1 +<time> +\S+ +spec\.http\[0\]\.route\[0\]\.weight +100 +the first$`, out)
	require.Equal(t, "2", m.ok("blame", "vs", "reviews", "-o", `jsonpath={[?(@.path=="spec.http[0].route[0].destination.host")].revision}`))
	require.Equal(t, 1, m.run("blame", "vs/gone").code)
	for _, args := range [][]string{{"blame"}, {"blame", "vs"}, {"blame", "vs", "a", "b"}, {"blame", "vs/a", "-A"}} {
		require.Equal(t, 2, m.run(args...).code, args)
	}
}

func TestRestore(t *testing.T) {
	t.Parallel()
	m := eventful(t)
	dry := m.ok("restore", "--to", "1", "--dry-run")
	require.Contains(t, dry, "virtualservice default/ratings deleted\n")
	require.Contains(t, dry, "virtualservice prod/reviews created\n")
	require.Contains(t, dry, "dry run: nothing was changed\n")
	require.Equal(t, "virtualservice default/reviews configured\nrevision 5\n", m.ok("restore", "vs/reviews", "--to", "1", "-m", "as it was"))
	require.Equal(t, "virtualservice prod/reviews created\nrevision 6\n", m.ok("restore", "-n", "prod", "--to", "2"))
	require.Equal(t, "nothing to change\n", m.ok("restore", "--kind", "dr", "--to", "1"))
	require.Contains(t, m.ok("restore", "--to", "3", "--yes"), "revision 7\n")
	var message string
	m.query("SELECT message FROM mesh.revisions WHERE revision = 5", &message)
	require.Equal(t, "as it was", message)

	for answer, args := range map[string][]string{
		"say with --to":                  {"restore"},
		"is not a revision":              {"restore", "--to", "soon"},
		"this restores the whole mesh":   {"restore", "--to", "1"},
		"of several kinds or namespaces": {"restore", "--to", "1", "vs/a", "dr/b"},
		"unknown kind":                   {"restore", "--to", "1", "nothing/a"},
	} {
		r := m.run(args...)
		require.Equal(t, 2, r.code, r.err)
		require.Contains(t, r.err, answer)
	}
	require.Equal(t, 1, m.run("restore", "--to", "99", "--yes").code)
}

func TestRevert(t *testing.T) {
	t.Parallel()
	m := eventful(t)
	require.Equal(t, "virtualservice default/reviews reverted\ndry run: nothing was changed\n", m.ok("revert", "2", "--dry-run"))
	require.Equal(t, "virtualservice default/reviews reverted\nrevision 5\n", m.ok("revert", "2"))
	r := m.run("revert", "1")
	require.Equal(t, 1, r.code)
	require.Contains(t, r.out, "virtualservice default/reviews left as it is, changed by revision 5\n")
	require.Contains(t, r.err, "not all of the revision was taken back")
	require.Equal(t, 2, m.run("revert", "zero").code)
	require.Equal(t, 2, m.run("revert").code)
	require.Equal(t, 1, m.run("revert", "99").code)
}

func TestConfirm(t *testing.T) {
	t.Parallel()
	m := start(t)
	require.Equal(t, result{err: "no change waits to be confirmed\n"}, m.run("confirm", "--list"))
	r := m.pipe(virtualService("default", "a", "b"), "apply", "-f", "-", "--confirm-within", "5m", "-m", "careful")
	require.Zero(t, r.code, r.err)
	require.Regexp(t, `revision 1\nit goes away at \d\d:\d\d:\d\d unless it is confirmed: mcp-client confirm 1\n$`, r.out)
	require.Regexp(t, `(?m)^1 +waiting +<time> +\S+ +careful$`, withoutClocks(m.ok("confirm", "--list")))
	require.Equal(t, "revision 1 confirmed\n", m.ok("confirm"))
	require.Equal(t, "revision 1 confirmed\n", m.ok("confirm", "1"))
	require.Equal(t, "confirmed", m.ok("confirm", "--list", "-o", "jsonpath={[0].state}"))
	require.Equal(t, 1, m.run("confirm", "99").code)
	require.Equal(t, 1, m.run("confirm").code, "nothing waits")
	require.Equal(t, 2, m.run("confirm", "x").code)
	asJSON := m.pipe(virtualService("default", "a", "c"), "import", "-", "--confirm-within", "5m", "-o", "jsonpath={.confirmBy}")
	require.Regexp(t, `^\d{4}-\d\d-\d\dT`, asJSON.out)
	require.Contains(t, m.ok("delete", "vs/a", "--confirm-within", "5m"), "mcp-client confirm 3\n")
}
