package contexts_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/mcp-client/contexts"
)

// FuzzLoad saves each file that loads, loads it again and expects the same content. It also expects
// every secret to be found.
func FuzzLoad(f *testing.F) {
	f.Add([]byte("current: prod\ncontexts:\n  prod:\n    server: mesh.example.com:15020\n    namespace: shop\n"))
	f.Add([]byte("contexts: {a: {token: x, insecure: 'true'}, b: null, 1: {2: 3}}\n"))
	f.Add([]byte("contexts: &a\n  a: *a\n---\n{"))
	f.Add([]byte("contxts: {}"))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text []byte) {
		path := filepath.Join(dir, "loaded.yaml")
		require.NoError(t, os.WriteFile(path, text, 0o600))
		file, err := contexts.Load(path, []string{"token"})
		if err != nil {
			return
		}
		saved := filepath.Join(dir, "saved.yaml")
		require.NoError(t, file.Save(saved))
		again, err := contexts.Load(saved, []string{"token"})
		require.NoError(t, err)
		require.Equal(t, file.Current, again.Current)
		require.Equal(t, file.Names(), again.Names())
		require.NoError(t, os.Chmod(saved, 0o644))
		_, err = contexts.Load(saved, []string{"token"})
		secret := false
		for _, name := range file.Names() {
			for key, value := range file.Contexts[name] {
				require.Equal(t, value, again.Contexts[name][key])
				secret = secret || key == "token" && value != ""
			}
		}
		require.Equal(t, secret, err != nil)
		require.NoError(t, os.Chmod(saved, 0o600))
	})
}
