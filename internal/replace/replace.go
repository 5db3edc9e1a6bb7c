// Package replace writes files whole: whoever reads one sees what was before, or what is new, and after a crash too.
package replace

import (
	"errors"
	"os"
	"path/filepath"
)

// File replaces a file, or makes it, with its folder, for its owner alone to read.
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
	settle(folder)
	return nil
}

// settle has the folder's new entry on disk. Where folders cannot be synced, the old file may come back after a loss of power.
func settle(folder string) {
	if opened, err := os.Open(folder); err == nil {
		_ = errors.Join(opened.Sync(), opened.Close())
	}
}
