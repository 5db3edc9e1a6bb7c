package resources_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/clitest"
)

func TestWhatWasReadIsNotAppliedOverWhatOthersWroteSince(t *testing.T) {
	t.Parallel()
	m := clitest.Bookinfo(t)
	require.Equal(t, "1", m.OK("get", "vs/reviews", "-o", "jsonpath={.metadata.resourceVersion}"))
	for _, format := range []string{"yaml", "json"} {
		read := m.OK("get", "vs", "-o", format)
		require.Contains(t, read, "resourceVersion")
		mine := strings.ReplaceAll(read, "reviews-v", "mine-v")
		r := m.Pipe(strings.Replace(clitest.VirtualService("default", "reviews", "reviews-v"+format), "app: reviews", "app: "+format, 1), "apply", "-f", "-", "-m", "faster")
		require.Zero(t, r.Code, r.Err)

		for _, more := range [][]string{{}, {"--dry-run"}} {
			r = m.Pipe(mine, append([]string{"apply", "-f", "-"}, more...)...)
			require.Equal(t, 3, r.Code, r.Err)
			require.Empty(t, r.Out)
			require.Regexp(t, `^error: virtualservice default/reviews was changed in revision \d by \S+ .*"faster"; the object has been modified: get it again, and make your change to that; nothing was changed\n$`, r.Err)
		}
		require.Equal(t, "reviews-v"+format, route(t, m, "reviews"))
	}

	// A change of labels alone is one, too.
	m.Await(3)
	read := m.OK("get", "vs/reviews", "-o", "yaml")
	m.Apply(strings.Replace(clitest.VirtualService("default", "reviews", "reviews-vjson"), "app: reviews", "app: other", 1))
	require.Equal(t, 3, m.Pipe(read, "apply", "-f", "-").Code)
	read = m.OK("get", "vs/reviews", "-o", "yaml")
	r := m.Pipe(strings.ReplaceAll(read, "reviews-vjson", "mine"), "apply", "-f", "-")
	require.Zero(t, r.Code, r.Err)
	require.Equal(t, "mine", route(t, m, "reviews"))

	// What is gone is not made again.
	m.Await(5)
	read = m.OK("get", "vs/reviews", "-o", "yaml")
	m.OK("delete", "vs/reviews")
	r = m.Pipe(read, "apply", "-f", "-")
	require.Equal(t, 3, r.Code, r.Err)
	require.Contains(t, r.Err, "virtualservice default/reviews was deleted in revision 6")
}

// A copy under another name has the version of what it was copied from, which does not make it one that somebody else has deleted.
func TestACopyIsCreatedWithoutTheVersionOfItsOriginal(t *testing.T) {
	t.Parallel()
	m := clitest.Bookinfo(t)
	copied := strings.ReplaceAll(m.OK("get", "vs/reviews", "-o", "yaml"), "name: reviews", "name: brandnew")
	r := m.Pipe(copied, "apply", "-f", "-")
	require.Equal(t, 3, r.Code)
	require.Equal(t, "error: virtualservice default/brandnew does not exist; to create it, leave its metadata.resourceVersion out; nothing was changed\n", r.Err)
}

// A file that is applied a second time changes nothing, although the first time has made a new version.
func TestWhatIsThereAlreadyIsUnchangedWhateverItsVersion(t *testing.T) {
	t.Parallel()
	m := clitest.Bookinfo(t)
	mine := strings.ReplaceAll(m.OK("get", "vs/reviews", "-o", "yaml"), "host: reviews", "host: mine")
	require.Contains(t, m.Pipe(mine, "apply", "-f", "-").Out, "virtualservice default/reviews configured")
	for _, command := range [][]string{{"apply", "-f", "-"}, {"apply", "-f", "-", "--dry-run"}, {"replace", "-f", "-"}} {
		r := m.Pipe(mine, command...)
		require.Zero(t, r.Code, r.Err)
		require.Contains(t, r.Out, "virtualservice default/reviews unchanged")
	}

	// With something that has to be changed beside it, that alone is; with a label of another's, nothing is.
	r := m.Pipe(mine+clitest.Separator+clitest.VirtualService("default", "another", "v1"), "apply", "-f", "-")
	require.Zero(t, r.Code, r.Err)
	require.Contains(t, r.Out, "virtualservice default/reviews unchanged\nvirtualservice default/another created\n")
	m.OK("label", "vs/reviews", "of=others")
	r = m.Pipe(mine+clitest.Separator+clitest.VirtualService("default", "third", "v1"), "apply", "-f", "-")
	require.Equal(t, 3, r.Code, r.Out)
	require.Contains(t, r.Err, "virtualservice default/reviews was changed in revision 4 by ")
	require.NotZero(t, m.Run("get", "vs/third").Code)
}

func TestAVersionThatIsNotOursDoesNotCount(t *testing.T) {
	t.Parallel()
	m := clitest.Bookinfo(t)
	ofACluster := strings.Replace(clitest.VirtualService("default", "reviews", "v9"), "metadata:\n", "metadata:\n  uid: 6e9f\n  resourceVersion: \"4711\"\n", 1)
	r := m.Pipe(ofACluster, "apply", "-f", "-")
	require.Zero(t, r.Code, r.Err)
	require.Equal(t, "v9", route(t, m, "reviews"))

	r = m.Pipe(strings.Replace(clitest.VirtualService("default", "reviews", "v10"), "metadata:\n", "metadata:\n  resourceVersion: soon\n", 1), "apply", "-f", "-")
	require.Equal(t, 3, r.Code)
	require.Contains(t, r.Err, `metadata.resourceVersion: "soon" is not a revision (read the resource from here, or leave it out)`)
}
