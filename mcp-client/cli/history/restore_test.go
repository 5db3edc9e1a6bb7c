package history_test

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/clitest"
)

func TestRestore(t *testing.T) {
	t.Parallel()
	m := clitest.Eventful(t)
	dry := m.OK("restore", "--to", "1", "--dry-run")
	require.Contains(t, dry, "virtualservice default/ratings deleted\n")
	require.Contains(t, dry, "virtualservice prod/reviews created\n")
	require.Contains(t, dry, "dry run: nothing was changed\n")
	require.Equal(t, "virtualservice default/reviews configured\nrevision 5\n", m.OK("restore", "vs/reviews", "--to", "1", "-m", "as it was"))
	require.Equal(t, "virtualservice prod/reviews created\nrevision 6\n", m.OK("restore", "-n", "prod", "--to", "2"))
	require.Equal(t, "nothing to change\n", m.OK("restore", "--kind", "dr", "--to", "1"))
	require.Contains(t, m.OK("restore", "--to", "3", "--yes"), "revision 7\n")
	var message string
	m.Query("SELECT message FROM mesh.revisions WHERE revision = 5", &message)
	require.Equal(t, "as it was", message)

	for answer, args := range map[string][]string{
		"go back to; mcp-client history lists":            {"restore"},
		"go back to; mcp-client history vs/reviews lists": {"restore", "vs/reviews"},
		"is not a revision":                               {"restore", "--to", "soon"},
		"this restores the whole mesh":                    {"restore", "--to", "1"},
		"of several kinds or namespaces":                  {"restore", "--to", "1", "vs/a", "dr/b"},
		"unknown kind":                                    {"restore", "--to", "1", "nothing/a"},
	} {
		r := m.Run(args...)
		require.Equal(t, 2, r.Code, r.Err)
		require.Contains(t, r.Err, answer)
	}
	require.Equal(t, 1, m.Run("restore", "--to", "99", "--yes").Code)
}

// toRestore finds the command that revert names for the VirtualService default/reviews.
var toRestore = regexp.MustCompile(`mcp-client restore (\S+/default/reviews) --to (\d+)`)

func TestRevert(t *testing.T) {
	t.Parallel()
	m := clitest.Eventful(t)
	require.Equal(t, "virtualservice default/reviews reverted\ndry run: nothing was changed\n", m.OK("revert", "2", "--dry-run"))
	require.Equal(t, "virtualservice default/reviews reverted\nrevision 5\n", m.OK("revert", "2"))
	require.Contains(t, m.Run("revert", "1", "--dry-run").Out, "virtualservice default/reviews reverted\n", "it is again as revision 1 left it")
	require.Equal(t, "virtualservice default/reviews reverted\nrevision 6\n", m.OK("revert", "5"))
	r := m.Run("revert", "1", "--partial")
	require.Equal(t, 1, r.Code)
	require.Contains(t, r.Out, "virtualservice default/reviews left as it is, changed by revision 6\n")
	require.Contains(t, r.Err, "not all of the revision was taken back: what was changed again since is as it was. To lose those changes, too: mcp-client restore ")
	found := toRestore.FindStringSubmatch(r.Err)
	require.NotNil(t, found, r.Err)
	require.Equal(t, "virtualservice default/reviews deleted\nrevision 7\n", m.OK("restore", found[1], "--to", found[2]), "what it names does it")
	require.Equal(t, 2, m.Run("revert", "zero").Code)
	require.Equal(t, 2, m.Run("revert").Code)
	require.Equal(t, 1, m.Run("revert", "99").Code)
}

// A revision goes back whole or not at all, so that no half of it is live, unless --partial asks for that.
func TestARevertIsWhole(t *testing.T) {
	t.Parallel()
	m := clitest.Start(t)
	m.Apply(clitest.VirtualService("shop", "a", "v1") + "\n---\n" + clitest.VirtualService("shop", "b", "v1"))
	m.Apply(clitest.VirtualService("shop", "a", "v2") + "\n---\n" + clitest.VirtualService("shop", "b", "v2"))
	m.Pipe(clitest.VirtualService("shop", "b", "v3"), "apply", "-f", "-", "-m", "for Bob")
	newest := func() (revision int) {
		m.Query("SELECT max(revision) FROM mesh.revisions", &revision)
		return revision
	}
	before := m.Everything()
	for _, more := range [][]string{{}, {"--dry-run"}} {
		r := m.Run(append([]string{"revert", "2"}, more...)...)
		require.Equal(t, 3, r.Code, r.Err)
		require.Contains(t, r.Err, "virtualservice shop/b was changed in revision 3 by ")
		require.Contains(t, r.Err, "for Bob")
		require.Contains(t, r.Err, "error: nothing of revision 2 was taken back, for 1 resource was changed again since. --partial takes back the others. To lose those changes, too: mcp-client restore ")
		require.Empty(t, r.Out)
	}
	require.Equal(t, before, m.Everything())
	require.Equal(t, 3, newest())

	r := m.Run("revert", "2", "--partial")
	require.Equal(t, 1, r.Code, r.Err)
	require.Contains(t, r.Out, "virtualservice shop/a reverted\nvirtualservice shop/b left as it is, changed by revision 3\nrevision 4\n")
	m.Run("delete", "vs", "b", "-n", "shop")
	r = m.Run("revert", "3")
	require.Equal(t, 3, r.Code)
	require.Contains(t, r.Err, "virtualservice shop/b was deleted in revision 5 by ")
}

// What cannot be made again, for nobody knows its kind, is told, and the rest can go back.
func TestARevertTellsWhatIsOfAnUnknownKind(t *testing.T) {
	t.Parallel()
	m := clitest.Start(t)
	m.Apply(clitest.VirtualService("shop", "a", "v1"))
	m.Execute(`SET session_replication_role = replica; INSERT INTO mesh.resources (api_group, kind, namespace, name, spec) VALUES ('x.io', 'Odd', 'shop', 'o', '{}');
		RESET session_replication_role; SELECT mesh.adopt()`)
	m.Execute("DELETE FROM mesh.resources")
	r := m.Run("revert", "3")
	require.Equal(t, 1, r.Code)
	require.Contains(t, r.Err, "nothing of revision 3 was taken back, for no program knows the kind any more of Odd shop/o (mcp-client revert 3 --partial takes back the others)")
	require.Zero(t, m.Stored())

	r = m.Run("restore", "--to", "2", "--yes")
	require.Equal(t, 3, r.Code)
	require.Contains(t, r.Err, "Odd shop/o: no program knows the kind Odd of x.io any more, so that it cannot be written (name the kinds that are wanted (mcp-client restore --kind; in SQL, kinds => ARRAY(SELECT kind FROM mesh.kinds) has all that are known))")
	require.Zero(t, m.Stored())

	r = m.Run("revert", "3", "--partial")
	require.Equal(t, 1, r.Code)
	require.Equal(t, "Odd.x.io shop/o left as it is, for no program knows its kind any more\nvirtualservice shop/a reverted\nrevision 4\n", r.Out)
	require.Contains(t, r.Err, "not all of the revision was taken back: what is of a kind that no program knows any more cannot be made again")
	require.Equal(t, 1, m.Stored())
}
