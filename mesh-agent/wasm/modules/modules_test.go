package modules_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/mesh-agent/wasm/modules"
	"github.com/pgmesh/pgmesh/mesh-agent/wasm/wasmtest"
)

func open(t *testing.T, o modules.Options) *modules.Store {
	t.Helper()
	if o.MaxModules == 0 {
		o.MaxModules = 3
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = 1 << 20
	}
	s, err := modules.Open(o)
	require.NoError(t, err)
	return s
}

// put keeps a module, and returns its digest.
func put(s *modules.Store, content []byte) (string, error) {
	p, err := s.Create()
	if err != nil {
		return "", err
	}
	defer p.Discard()
	if _, err := p.Write(content); err != nil {
		return "", err
	}
	digest := wasmtest.Digest(content)
	return digest, p.Keep(digest, "oci://r.example/a")
}

func must(t *testing.T, s *modules.Store, text string) string {
	t.Helper()
	digest, err := put(s, []byte(text))
	require.NoError(t, err)
	return digest
}

// there reports whether a module is there, without holding it.
func there(s *modules.Store, digest string) bool {
	release, is := s.Use(digest)
	if is {
		release()
	}
	return is
}

func TestModulesSurviveARestart(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	var owned []string
	s := open(t, modules.Options{Folder: folder, Own: func(path string) error { owned = append(owned, path); return nil }})
	one, two := must(t, s, "one"), must(t, s, "two")
	require.Len(t, owned, 2)
	key := s.Place("oci://r.example/a", "secret")
	s.Note(key, modules.Asked{Module: one, Image: "i", Digest: "d", Versions: map[string]string{"p": "1"}})
	s.Note(s.Place("oci://r.example/b", ""), modules.Asked{Module: two, Versions: map[string]string{"p": "1"}})
	require.NoError(t, s.Save())
	text, err := os.ReadFile(filepath.Join(folder, "index.json"))
	require.NoError(t, err)
	require.NotContains(t, string(text), "secret")
	info, err := os.Stat(s.Path(one))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())

	// An agent was killed as it fetched, and somebody damaged a module.
	require.NoError(t, os.WriteFile(filepath.Join(folder, ".fetching-1"), []byte("x"), 0o600))
	require.NoError(t, os.WriteFile(s.Path("stray"), []byte("x"), 0o600))
	require.NoError(t, os.WriteFile(s.Path(two), []byte("tw0"), 0o600))
	s = open(t, modules.Options{Folder: folder})
	require.NoFileExists(t, filepath.Join(folder, ".fetching-1"))
	require.NoFileExists(t, s.Path("stray"))
	require.True(t, there(s, one))
	require.False(t, there(s, two), "it is fetched again")
	require.NoFileExists(t, s.Path(two))
	at, forThis := s.At(key, "p", "1")
	require.Equal(t, []any{one, true}, []any{at, forThis})
	_, forThis = s.At(key, "p", "2")
	require.False(t, forThis)
	require.Equal(t, one, s.In("i"))
	require.True(t, s.Matches(key, "d"))
	at, _ = s.At(s.Place("oci://r.example/a", "other"), "p", "1")
	require.Empty(t, at, "others have to be let in by themselves")
	at, _ = s.At(s.Place("oci://r.example/b", ""), "p", "1")
	require.Empty(t, at)

	require.NoError(t, os.WriteFile(filepath.Join(folder, "index.json"), []byte("{"), 0o600))
	s = open(t, modules.Options{Folder: folder})
	require.Empty(t, s.List())
	require.NoFileExists(t, s.Path(one))
}

func TestRoom(t *testing.T) {
	t.Parallel()
	var inUse []string
	s := open(t, modules.Options{Folder: t.TempDir(), MaxModules: 3, MaxBytes: 100, InUse: func() []string { return inUse }})
	one, two, three := must(t, s, "one"), must(t, s, "two"), must(t, s, "three")
	inUse = []string{s.Path(one)}
	release, _ := s.Use(two)
	four := must(t, s, "four")
	require.Equal(t, []bool{true, true, false, true}, []bool{there(s, one), there(s, two), there(s, three), there(s, four)})
	require.NoFileExists(t, s.Path(three))

	_, err := put(s, bytes.Repeat([]byte("x"), 95))
	require.ErrorContains(t, err, "there is no room for another module")
	require.False(t, there(s, four), "it made room in vain")
	release()
	_, err = put(s, bytes.Repeat([]byte("x"), 95))
	require.NoError(t, err)
	require.True(t, there(s, one), "Envoy's configuration names it")
	require.False(t, there(s, two))
	require.LessOrEqual(t, s.Bytes(), int64(100))

	// What was written and not kept takes no room.
	for range 10 {
		p, err := s.Create()
		require.NoError(t, err)
		_, _ = p.Write(bytes.Repeat([]byte("x"), 50))
		p.Discard()
	}
	must(t, s, "five")
	files, err := os.ReadDir(filepath.Dir(s.Path(one)))
	require.NoError(t, err)
	require.Len(t, files, 2)
}

func TestWhatNobodyUsesGoes(t *testing.T) {
	t.Parallel()
	var inUse []string
	s := open(t, modules.Options{Folder: t.TempDir(), Keep: time.Hour, InUse: func() []string { return inUse }})
	one, two := must(t, s, "one"), must(t, s, "two")
	inUse = []string{s.Path(one)}
	require.NoError(t, s.Sweep(time.Now().Add(59*time.Minute)))
	require.True(t, there(s, two))
	require.NoError(t, s.Sweep(time.Now().Add(2*time.Hour)))
	require.False(t, there(s, two))
	require.True(t, there(s, one))
}

func TestPlacesAreBounded(t *testing.T) {
	t.Parallel()
	s := open(t, modules.Options{Folder: t.TempDir()})
	one := must(t, s, "one")
	for i := range 5000 {
		s.Note(s.Place(fmt.Sprint(i), ""), modules.Asked{Module: one})
	}
	for i := range 10000 {
		s.Note(s.Place("same", ""), modules.Asked{Module: one, Versions: map[string]string{fmt.Sprint(i): "1"}})
	}
	require.NoError(t, s.Save())
	info, err := os.Stat(filepath.Join(filepath.Dir(s.Path(one)), "index.json"))
	require.NoError(t, err)
	require.Less(t, info.Size(), int64(2<<20))
}

func TestAFileThatCannotBeGivenToEnvoyIsNotKept(t *testing.T) {
	t.Parallel()
	s := open(t, modules.Options{Folder: t.TempDir(), Own: func(string) error { return errors.New("not permitted") }})
	_, err := put(s, []byte("one"))
	require.ErrorContains(t, err, "not permitted")
	files, err := os.ReadDir(filepath.Dir(s.Path("x")))
	require.NoError(t, err)
	require.Empty(t, files)
}
