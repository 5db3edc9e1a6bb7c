// Package replace writes files atomically: a reader sees the old content or the new, also after a
// crash.
package replace

import (
	"errors"
	"os"
	"path/filepath"
)

// File writes a file, and creates its folder if needed, readable by its owner alone.
func File(path string, content []byte) error {
	folder := filepath.Dir(path)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	next, err := os.CreateTemp(folder, "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	_, err = next.Write(content)
	if err = errors.Join(err, next.Sync(), next.Close()); err == nil {
		err = os.Rename(next.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(next.Name()))
	}
	syncFolder(folder)
	return nil
}

// syncFolder syncs the folder's new entry to disk. Where folders cannot be synced, a power loss may
// bring the old file back.
func syncFolder(folder string) {
	if opened, err := os.Open(folder); err == nil {
		_ = errors.Join(opened.Sync(), opened.Close())
	}
}
