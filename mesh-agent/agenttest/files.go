package agenttest

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// ShortFolder returns a folder in which a socket has a path that is short enough.
func ShortFolder(t testing.TB) string {
	t.Helper()
	folder, err := os.MkdirTemp("", "agent") //nolint:usetesting // the path of t.TempDir has the name of the test in it
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(folder) })
	return folder
}

// TokenFile returns a file with a token.
func TokenFile(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(path, []byte(text+"\n"), 0o600))
	return path
}

// ConfigFile returns a configuration file of an agent.
func ConfigFile(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "mesh-agent.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// Get returns what an address answers.
func Get(t testing.TB, url string) (code int, body string) {
	t.Helper()
	response, err := http.Get(url) //nolint:gosec // an address of the test
	require.NoError(t, err)
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(content)
}
