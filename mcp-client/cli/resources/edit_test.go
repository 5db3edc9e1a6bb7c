package resources_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/clitest"
)

// edit runs edit with an editor, a shell script that edits the file $1. The file $n counts its
// runs.
func edit(t *testing.T, m *clitest.Mesh, script string, args ...string) clitest.Result {
	t.Helper()
	file := filepath.Join(t.TempDir(), "editor")
	require.NoError(t, os.WriteFile(file, []byte("n="+file+".count\necho run >> $n\n"+script), 0o600))
	env := map[string]string{"EDITOR": "sh " + file}
	return clitest.Run(t.Context(), "", env, append(append([]string{"edit"}, args...), "--server", m.Address, "--insecure")...)
}

var keptIn = regexp.MustCompile(`What was edited is in (\S+)\n`)

// kept returns the file that a failed edit left, and removes it.
func kept(t *testing.T, r clitest.Result) string {
	t.Helper()
	found := keptIn.FindStringSubmatch(r.Err)
	require.NotNil(t, found, r.Err)
	text, err := os.ReadFile(found[1])
	require.NoError(t, err)
	require.NoError(t, os.Remove(found[1]))
	return string(text)
}

func TestEditAppliesSavedFile(t *testing.T) {
	t.Parallel()
	m := clitest.Bookinfo(t)
	r := edit(t, m, `sed -i s/-v1/-v5/ "$1"`, "vs", "reviews", "ratings", "-m", "five")
	require.Equal(t, clitest.Result{Code: 0, Out: "virtualservice default/reviews configured\nvirtualservice default/ratings configured\nrevision 2\n", Err: ""}, clitest.Result{Code: r.Code, Out: r.Out, Err: withoutWarnings(r.Err)})
	require.Equal(t, "reviews-v5", route(t, m, "reviews"))
	require.Equal(t, "five", m.OK("history", "vs/reviews", "--limit", "1", "-o", "jsonpath={[0].message}"))
	require.Equal(t, clitest.Result{Err: "nothing was edited\n"}, edit(t, m, `true`, "vs/reviews"))
	require.Equal(t, clitest.Result{Err: "nothing was edited\n"}, edit(t, m, `: > "$1"`, "vs/reviews"))
}

// route returns the destination of a stored VirtualService.
func route(t *testing.T, m *clitest.Mesh, name string) (host string) {
	t.Helper()
	m.Query("SELECT spec #>> '{http,0,route,0,destination,host}' FROM mesh.resources WHERE kind = 'VirtualService' AND namespace = 'default' AND name = '"+name+"'", &host)
	return host
}

func withoutWarnings(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "warning: ") {
			b.WriteString(line)
		}
	}
	return b.String()
}

func TestEditReopensRefusedFileWithReason(t *testing.T) {
	t.Parallel()
	m := clitest.Bookinfo(t)
	r := edit(t, m, `
if [ "$(wc -l < $n)" = 1 ]; then sed -i s/weight/wieght/ "$1"; exit; fi
grep -q '^#! .*unknown field "wieght" (did you mean "weight"?)' "$1" || exit 7
sed -i 's/wieght/weight/; s/reviews-v1/reviews-v6/' "$1"`, "vs/reviews")
	require.Zero(t, r.Code, r.Err)
	require.Equal(t, "reviews-v6", route(t, m, "reviews"))

	// What only the server refuses comes back too.
	m.Execute(`INSERT INTO mesh.settings (name, value, namespace) VALUES ('strict_references', 'on', 'default')`)
	r = edit(t, m, `
if [ "$(wc -l < $n)" = 1 ]; then sed -i s/reviews-v6/reviews-v7/ "$1"; exit; fi
grep -q '^#! .*no ServiceEntry' "$1" || exit 7
: > "$1"`, "vs/reviews")
	require.Equal(t, 1, r.Code, r.Err)
	require.Contains(t, r.Err, "error: given up")
	require.Contains(t, kept(t, r), "host: reviews-v7")
	require.Equal(t, "reviews-v6", route(t, m, "reviews"))
}

func TestEditKeepsUnappliedFile(t *testing.T) {
	t.Parallel()
	m := clitest.Bookinfo(t)
	r := edit(t, m, `sed -i s/weight/wieght/ "$1"`, "vs/reviews")
	require.Equal(t, 3, r.Code)
	require.Contains(t, r.Err, `unknown field "wieght" (did you mean "weight"?)`+"\nerror: what was refused was saved again as it was: nothing was changed, because of the mistake above. What was edited is in ")
	file := kept(t, r)
	require.Contains(t, file, "wieght: 100")
	require.Contains(t, file, `unknown field "wieght" (did you mean "weight"?)`)

	r = edit(t, m, `sed -i s/weight/weightt/ "$1"`, "vs/reviews") // longer each time
	require.Equal(t, 3, r.Code)
	require.Contains(t, r.Err, "opened 10 times, and refused each time: nothing was changed, because of the mistake above")
	require.Contains(t, kept(t, r), "wei"+"ght"+strings.Repeat("t", 10)+": 100")

	r = edit(t, m, `sed -i 's/name: reviews/name: other/' "$1"`, "vs/reviews")
	require.Equal(t, 3, r.Code)
	require.Contains(t, kept(t, r), "name: other")

	r = edit(t, m, `exit 3`, "vs/reviews")
	require.Equal(t, 1, r.Code)
	require.Contains(t, r.Err, "exit status 3 (VISUAL or EDITOR names another)")
	require.Contains(t, r.Err, "; nothing was changed\n")
	require.NotContains(t, r.Err, "What was edited")
	r = edit(t, m, `sed -i s/reviews-v1/saved/ "$1"; exit 3`, "vs/reviews")
	require.Equal(t, 1, r.Code)
	require.Contains(t, r.Err, "; nothing was changed. What was edited is in ")
	require.Contains(t, kept(t, r), "host: saved")
	require.Equal(t, "reviews-v1", route(t, m, "reviews"))
	require.Equal(t, 1, edit(t, m, `true`, "vs/gone").Code)
	for _, args := range [][]string{{}, {"vs"}, {"vs/a", "-A"}, {"nothing/a"}} {
		require.Equal(t, 2, edit(t, m, `true`, args...).Code, args)
	}
}

func TestEditDetectsConflicts(t *testing.T) {
	t.Parallel()
	m := clitest.Bookinfo(t)
	opened, goOn := fifo(t), fifo(t)
	theirs := make(chan clitest.Result, 1)
	go func() { // somebody else edits while the editor is open
		_, _ = os.ReadFile(opened)
		theirs <- m.Pipe(clitest.VirtualService("default", "reviews", "theirs"), "apply", "-f", "-", "-m", "faster")
		_ = os.WriteFile(goOn, nil, 0o600)
	}()
	r := edit(t, m, `: > `+opened+`; cat `+goOn+`; sed -i s/reviews-v1/mine/ "$1"`, "vs/reviews")
	require.Zero(t, (<-theirs).Code)
	require.Equal(t, 3, r.Code, r.Err)
	require.Regexp(t, `error: virtualservice default/reviews was changed in revision 2 by \S+ \(mcp-client.*\) at .*: "faster"; the object has been modified: get it again, and make your change to that; nothing was changed`, r.Err)
	file := kept(t, r)
	require.Contains(t, file, "host: mine")
	r = m.Pipe(file, "apply", "-f", "-")
	require.Equal(t, 3, r.Code, r.Err)
	require.Contains(t, r.Err, "the object has been modified")
	require.Equal(t, "theirs", route(t, m, "reviews"))
}

// fifo is a named pipe: opening one end waits for the other.
func fifo(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fifo")
	require.NoError(t, syscall.Mkfifo(path, 0o600))
	return path
}
