package contexts_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/mcp-client/contexts"
)

func TestPath(t *testing.T) {
	t.Parallel()
	for want, env := range map[string]map[string]string{
		"/x/c.yaml":                          {"PGMESH_CONFIG": "/x/c.yaml", "HOME": "/home/a"},
		"/xdg/pgmesh/config.yaml":            {"XDG_CONFIG_HOME": "/xdg", "HOME": "/home/a"},
		"/home/a/.config/pgmesh/config.yaml": {"HOME": "/home/a"},
		"":                                   {},
	} {
		require.Equal(t, want, contexts.Path(func(name string) string { return env[name] }))
	}
}

func TestSaveAndLoad(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "deep", "config.yaml")
	none, err := contexts.Load(path, nil)
	require.NoError(t, err)
	require.Empty(t, none.Names())

	f := &contexts.File{Current: "prod", Contexts: map[string]contexts.Context{
		"prod": {"server": "a:1", "insecure": "true"}, "Überall": {"server": "b:1", "token": "x: {y"},
	}}
	require.NoError(t, f.Save(path))
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	read, err := contexts.Load(path, []string{"token"})
	require.NoError(t, err)
	require.Equal(t, f, read)

	left, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, left, 1, "no half-written file is left behind")
}

func TestSaveFollowsLinks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	target, link := filepath.Join(dir, "dotfiles.yaml"), filepath.Join(dir, "config.yaml")
	require.NoError(t, os.WriteFile(target, nil, 0o600))
	require.NoError(t, os.Symlink(target, link))
	require.NoError(t, (&contexts.File{Current: "a"}).Save(link))
	f, err := contexts.Load(target, nil)
	require.NoError(t, err)
	require.Equal(t, "a", f.Current)
}

func TestSecretsInReadableFileAreRefused(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "config.yaml")
	require.NoError(t, os.WriteFile(path, []byte("contexts: {prod: {token: t}, test: {insecure: true}}\n"), 0o644))
	_, err := contexts.Load(path, []string{"token"})
	require.ErrorContains(t, err, "has the mode 0644, and the context prod in it has a secret that is for you alone: chmod 600 "+path)
	f, err := contexts.Load(path, []string{"other"})
	require.NoError(t, err)
	require.Equal(t, "true", f.Contexts["test"]["insecure"])
	require.NoError(t, os.Chmod(path, 0o600))
	_, err = contexts.Load(path, []string{"token"})
	require.NoError(t, err)
}

func TestErrorsNameTheFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "config.yaml")
	for _, text := range []string{"contexts: [", "presently: a", "contexts: {a: [b]}", "just text"} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		_, err := contexts.Load(path, nil)
		require.ErrorContains(t, err, path, text)
	}
	_, err := contexts.Load(filepath.Dir(path), nil)
	require.ErrorContains(t, err, "is a directory")
	require.ErrorContains(t, (&contexts.File{}).Save(""), "PGMESH_CONFIG")
	require.Error(t, (&contexts.File{}).Save(filepath.Join(path, "below-a-file")))
}
