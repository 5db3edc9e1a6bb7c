package saved

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/pgmesh/pgmesh/mcp-server/identity/seal"
	"github.com/pgmesh/pgmesh/mcp-server/publish"
)

// fileName is the file in a server's folder. tempPattern matches temporary files, which a server
// leaves behind if it dies while writing.
const (
	fileName    = "mcp-server.snapshot"
	tempPattern = ".mcp-server.snapshot-*"
)

// folder is where a server keeps its file. Only the server's own user may read it.
type folder struct {
	path   string
	places []string
	keys   *seal.Keys
}

func (f folder) file() string { return filepath.Join(f.path, fileName) }

// load reads the file; nil if there is none. It refuses a file that was read from another place
// than this server's. It renames a damaged file, and its error says to what.
func (f folder) load() (*publish.State, error) {
	in, err := os.Open(f.file())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer in.Close()
	about, err := in.Stat()
	if err != nil {
		return nil, err
	}
	s, places, err := Read(in, about.Size())
	if _, broken := errors.AsType[*DamagedError](err); broken {
		return nil, f.setAside(err)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", f.file(), err)
	}
	if !slices.ContainsFunc(places, func(p string) bool { return slices.Contains(f.places, p) }) {
		return nil, fmt.Errorf("%w: %s is from %v, this server reads from %v", ErrElsewhere, f.file(), places, f.places)
	}
	return f.openSecrets(s), nil
}

// setAside renames a damaged file for people to inspect. It is never read again.
func (f folder) setAside(why error) error {
	aside := f.file() + ".damaged-" + time.Now().UTC().Format("20060102T150405.000Z")
	if err := os.Rename(f.file(), aside); err != nil {
		return errors.Join(fmt.Errorf("%s: %w", f.file(), why), err)
	}
	return fmt.Errorf("%s: %w; it was set aside as %s", f.file(), why, filepath.Base(aside))
}

// save replaces the file. After a crash there is either the old file or the new one, complete.
func (f folder) save(s *publish.State) (err error) {
	if err := os.MkdirAll(f.path, 0o700); err != nil {
		return err
	}
	out, err := os.CreateTemp(f.path, tempPattern)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(out.Name()))
		}
	}()
	if err := Write(out, f.sealSecrets(s), f.places); err != nil {
		return errors.Join(err, out.Close())
	}
	if err := errors.Join(out.Sync(), out.Close()); err != nil {
		return err
	}
	if err := os.Rename(out.Name(), f.file()); err != nil {
		return err
	}
	f.sync()
	return nil
}

// sync syncs the folder. Where that is not possible, the old file may come back after a power loss.
func (f folder) sync() {
	if dir, err := os.Open(f.path); err == nil {
		_ = dir.Sync()
		_ = dir.Close()
	}
}

// tempMaxAge is the age at which a temporary file is certainly not being written any more.
const tempMaxAge = time.Hour

// clean removes abandoned temporary files.
func (f folder) clean() {
	left, _ := filepath.Glob(filepath.Join(f.path, tempPattern)) // fails only for bad patterns
	for _, path := range left {
		if about, err := os.Stat(path); err == nil && time.Since(about.ModTime()) > tempMaxAge {
			_ = os.Remove(path)
		}
	}
}
