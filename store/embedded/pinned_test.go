package embedded

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A repository that hands out something else, with a digest of its own beside it, has nothing
// unpacked.
func TestABuildThatWasReplacedIsNotUnpacked(t *testing.T) {
	t.Parallel()
	var asked []string
	mirror := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, filepath.Base(r.URL.Path))
		_, _ = w.Write([]byte("planted"))
	}))
	defer mirror.Close()
	home := t.TempDir()
	root := filepath.Join(home, "postgres")
	err := fetch(mirror.URL, home, root, builds[""])
	require.ErrorContains(t, err, "has sha256 ")
	require.ErrorContains(t, err, "nothing was installed")
	require.Len(t, asked, 1, "%v", asked)
	require.NoDirExists(t, root)
	left, err := os.ReadDir(home)
	require.NoError(t, err)
	require.Empty(t, left)
}

// Each version can be had where the tests of all versions run.
func TestEachVersionHasADigest(t *testing.T) {
	t.Parallel()
	for major, build := range builds {
		require.Contains(t, digests, "linux-amd64-"+string(build), "Postgres %s", major)
	}
}
