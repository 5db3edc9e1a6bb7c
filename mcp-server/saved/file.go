package saved

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/pgmesh/pgmesh/mcp-server/publish"
	"github.com/pgmesh/pgmesh/mcp-server/seal"
)

// fileName is the file in a server's folder, and unfinished matches what a server leaves that dies while it writes one.
const (
	fileName   = "mcp-server.snapshot"
	unfinished = ".mcp-server.snapshot-*"
)

// folder is where a server keeps its file. Only the server's own user may look into it.
type folder struct {
	path   string
	places []string
	keys   *seal.Keys
}

func (f folder) file() string { return filepath.Join(f.path, fileName) }

// load reads the file, if there is one that was read from a place that this server reads from. A damaged file is set aside: the
// error says where.
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
	return f.fromFile(s), nil
}

// setAside keeps a file for people to look at. It is out of the way of the next one, and never read again.
func (f folder) setAside(why error) error {
	aside := f.file() + ".damaged-" + time.Now().UTC().Format("20060102T150405.000Z")
	if err := os.Rename(f.file(), aside); err != nil {
		return errors.Join(fmt.Errorf("%s: %w", f.file(), why), err)
	}
	return fmt.Errorf("%s: %w; it was set aside as %s", f.file(), why, filepath.Base(aside))
}

// save replaces the file. Whatever happens meanwhile, there is the old one or the new one, whole.
func (f folder) save(s *publish.State) (err error) {
	if err := os.MkdirAll(f.path, 0o700); err != nil {
		return err
	}
	out, err := os.CreateTemp(f.path, unfinished)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(out.Name()))
		}
	}()
	if err := Write(out, f.forFile(s), f.places); err != nil {
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

// sync has the folder's new entry on disk. Where folders cannot be synced, the old file may come back after a loss of power.
func (f folder) sync() {
	if dir, err := os.Open(f.path); err == nil {
		_ = dir.Sync()
		_ = dir.Close()
	}
}

// abandoned is how old a file must be for it to be clear that nobody is still writing it.
const abandoned = time.Hour

// clean removes what was left unfinished.
func (f folder) clean() {
	left, _ := filepath.Glob(filepath.Join(f.path, unfinished)) // fails for bad patterns alone
	for _, path := range left {
		if about, err := os.Stat(path); err == nil && time.Since(about.ModTime()) > abandoned {
			_ = os.Remove(path)
		}
	}
}
