package archive_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/deploy/release/archive"
)

var at = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

func TestTheSameEntriesAreTheSameArchive(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, []byte("of this machine"), 0o600))
	entries := []archive.Entry{
		{Name: "usr/bin/program", Mode: 0o755, File: file},
		{Name: "var/lib/program", Mode: 0o700, Owner: 65532, Folder: true},
		{Name: "program", Mode: 0o777, Link: "usr/bin/program"},
		{Name: "etc/text", Mode: 0o644, Content: []byte("text")},
	}
	var one, other bytes.Buffer
	require.NoError(t, archive.Write(&one, entries, at))
	require.NoError(t, os.Chtimes(file, at, at.Add(time.Hour)))
	require.NoError(t, os.Chmod(file, 0o644))
	slices.Reverse(entries)
	require.NoError(t, archive.Write(&other, entries, at))
	require.Equal(t, one.Bytes(), other.Bytes())

	var names []string
	for files := tar.NewReader(&one); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		names = append(names, header.Name)
		require.True(t, header.ModTime.Equal(at), header.Name)
		if header.Name == "var/lib/program/" {
			require.Equal(t, []int64{0o700, 65532, 65532}, []int64{header.Mode, int64(header.Uid), int64(header.Gid)})
		}
	}
	require.Equal(t, []string{"etc/", "etc/text", "program", "usr/", "usr/bin/", "usr/bin/program", "var/", "var/lib/", "var/lib/program/"}, names)
}
