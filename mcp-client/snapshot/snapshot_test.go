package snapshot_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/snapshot"
)

var header = snapshot.Header{Server: "127.0.0.1:1", Revision: 12, Taken: time.Date(2030, 1, 2, 3, 4, 5, 6, time.UTC)}

// everyKind returns a resource of each kind.
func everyKind(t testing.TB) []snapshot.Entry {
	t.Helper()
	text, err := os.ReadFile("../../kinds/testdata/every-kind.yaml")
	require.NoError(t, err)
	documents, err := kinds.Parse("every-kind.yaml", text)
	require.NoError(t, err)
	var entries []snapshot.Entry
	for i, d := range documents {
		r := *d.Resource
		r.Annotations = map[string]string{"note": "größer < 1\n& mehr"}
		if i%2 == 0 {
			r.CreateTime = time.Date(2029, 1, 2, 3, 4, 5, 123456000, time.UTC)
		}
		entries = append(entries, snapshot.Entry{Resource: &r, Version: strings.Repeat("v", i)})
	}
	require.Greater(t, len(entries), 20)
	return entries
}

func written(t testing.TB, entries []snapshot.Entry) []byte {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, snapshot.Write(&b, header, entries))
	return b.Bytes()
}

func requireSame(t testing.TB, want, got []snapshot.Entry) {
	t.Helper()
	require.Len(t, got, len(want))
	for i := range want {
		w, g := want[i], got[i]
		require.Equal(t, w.Version, g.Version)
		require.Equal(t, w.Resource.Key(), g.Resource.Key())
		require.Equal(t, w.Resource.Labels, g.Resource.Labels)
		require.Equal(t, w.Resource.Annotations, g.Resource.Annotations)
		require.True(t, w.Resource.CreateTime.Equal(g.Resource.CreateTime))
		require.True(t, w.Resource.Spec.Equal(g.Resource.Spec), w.Resource.Key())
	}
}

func TestSaveAndOpen(t *testing.T) {
	t.Parallel()
	entries := everyKind(t)
	var sizes []int64
	for _, name := range []string{"a.snapshot", "a.snapshot.gz"} {
		path := filepath.Join(t.TempDir(), name)
		require.NoError(t, snapshot.Save(path, snapshot.Header{}, nil))
		require.NoError(t, snapshot.Save(path, header, entries), "an older one is replaced")
		require.True(t, snapshot.Is(path))
		h, read, err := snapshot.Open(path)
		require.NoError(t, err)
		want := header
		want.Format = snapshot.Format
		require.Equal(t, want, h)
		requireSame(t, entries, read)
		info, err := os.Stat(path)
		require.NoError(t, err)
		sizes = append(sizes, info.Size())
		left, err := os.ReadDir(filepath.Dir(path))
		require.NoError(t, err)
		require.Len(t, left, 1)
	}
	require.Less(t, sizes[1], sizes[0]/2, ".gz is compressed")
	_, read, err := snapshot.Read(bytes.NewReader(written(t, nil)))
	require.NoError(t, err)
	require.Empty(t, read)
}

// A file that is truncated or has a changed byte must be refused.
func TestDamagedFileIsRefused(t *testing.T) {
	t.Parallel()
	whole := written(t, everyKind(t)[:3])
	for cut := range whole {
		_, _, err := snapshot.Read(bytes.NewReader(whole[:cut]))
		require.ErrorIs(t, err, snapshot.ErrDamaged, "cut at %d", cut)
	}
	for at := range whole {
		changed := bytes.Clone(whole)
		changed[at] ^= 1
		_, _, err := snapshot.Read(bytes.NewReader(changed))
		require.Error(t, err, "the byte %d", at)
	}
	_, _, err := snapshot.Read(bytes.NewReader(append(bytes.Clone(whole), '\n')))
	require.ErrorContains(t, err, "there is something after the end")
	_, _, err = snapshot.Read(bytes.NewReader([]byte{0x1f, 0x8b, 8, 0}))
	require.ErrorIs(t, err, snapshot.ErrDamaged)
	newer := bytes.Replace(whole, []byte("snapshot/v1"), []byte("snapshot/v2"), 1)
	_, _, err = snapshot.Read(bytes.NewReader(newer))
	require.ErrorContains(t, err, "use a newer one")
	require.NotErrorIs(t, err, snapshot.ErrDamaged)
}

func TestUnusableFiles(t *testing.T) {
	t.Parallel()
	require.ErrorIs(t, snapshot.Save(filepath.Join(t.TempDir(), "gone", "a"), header, nil), os.ErrNotExist)
	dir := t.TempDir()
	require.Error(t, snapshot.Save(dir, header, nil))
	require.False(t, snapshot.Is(dir))
	require.False(t, snapshot.Is("../../kinds/testdata/every-kind.yaml"))
	require.False(t, snapshot.Is(filepath.Join(dir, "gone")))
	_, _, err := snapshot.Open(filepath.Join(dir, "gone"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

// FuzzRead holds that a file that can be read is the same when written and read again. Each input
// is tried as is, and with a correct trailer, which chance would never find.
func FuzzRead(f *testing.F) {
	whole := written(f, everyKind(f)[:2])
	f.Add(whole)
	f.Add(whole[:bytes.LastIndex(whole[:len(whole)-1], []byte("\n"))+1])
	f.Add([]byte(`{"format":"pgmesh.io/snapshot/v1"}` + "\n" + `{"resource":{}}` + "\n"))
	f.Add([]byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, text []byte) {
		readAndWrite(t, text)
		end := fmt.Sprintf(`{"resources":%d,"sha256":"%x"}`+"\n", max(bytes.Count(text, []byte("\n"))-1, 0), sha256.Sum256(text))
		readAndWrite(t, append(bytes.Clone(text), end...))
	})
}

func readAndWrite(t *testing.T, text []byte) {
	t.Helper()
	h, entries, err := snapshot.Read(bytes.NewReader(text))
	if err != nil {
		return
	}
	var b bytes.Buffer
	if snapshot.Write(&b, h, entries) != nil {
		return // a time that JSON does not have
	}
	_, again, err := snapshot.Read(&b)
	require.NoError(t, err)
	requireSame(t, entries, again)
}
