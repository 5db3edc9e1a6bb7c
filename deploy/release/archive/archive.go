// Package archive writes tar files that are the same, byte for byte, whenever and wherever they are
// made from the same files.
package archive

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"time"
)

// Entry is a file, a folder or a link in an archive. Its content is that of File if that is set.
type Entry struct {
	Name    string // without a slash at its beginning
	Mode    int64
	Owner   int // user and group
	Folder  bool
	Link    string
	File    string
	Content []byte
}

// WriteFile writes a compressed archive to a file.
func WriteFile(file string, entries []Entry, at time.Time) (err error) {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	packed, err := gzip.NewWriterLevel(f, gzip.BestCompression)
	if err != nil {
		return err
	}
	if err := Write(packed, entries, at); err != nil {
		return err
	}
	return packed.Close()
}

// Write writes entries in the order of their names, with the folders that they are in.
func Write(into io.Writer, entries []Entry, at time.Time) error {
	w := tar.NewWriter(into)
	for _, e := range withFolders(entries) {
		if err := e.write(w, at); err != nil {
			return fmt.Errorf("pack %s: %w", e.Name, err)
		}
	}
	return w.Close()
}

// withFolders adds folders that are not among the entries, and sorts: what is in a folder comes after
// it.
func withFolders(entries []Entry) []Entry {
	known := map[string]bool{".": true}
	for _, e := range entries {
		known[e.Name] = true
	}
	all := slices.Clone(entries)
	for _, e := range entries {
		for folder := path.Dir(e.Name); !known[folder]; folder = path.Dir(folder) {
			known[folder] = true
			all = append(all, Entry{Name: folder, Mode: 0o755, Folder: true})
		}
	}
	slices.SortFunc(all, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	return all
}

func (e Entry) write(w *tar.Writer, at time.Time) error {
	header := &tar.Header{Name: e.Name, Mode: e.Mode, Uid: e.Owner, Gid: e.Owner, ModTime: at, Format: tar.FormatUSTAR}
	content := io.Reader(bytes.NewReader(e.Content))
	switch {
	case e.Folder:
		header.Typeflag, header.Name = tar.TypeDir, e.Name+"/"
	case e.Link != "":
		header.Typeflag, header.Linkname = tar.TypeSymlink, e.Link
	case e.File != "":
		file, err := os.Open(e.File)
		if err != nil {
			return err
		}
		defer file.Close()
		info, err := file.Stat()
		if err != nil {
			return err
		}
		header.Typeflag, header.Size, content = tar.TypeReg, info.Size(), file
	default:
		header.Typeflag, header.Size = tar.TypeReg, int64(len(e.Content))
	}
	if err := w.WriteHeader(header); err != nil {
		return err
	}
	_, err := io.Copy(w, content)
	return err
}
