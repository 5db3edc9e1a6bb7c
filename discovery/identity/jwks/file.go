package jwks

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/identity/webkeys"
	"github.com/pgmesh/pgmesh/internal/kit/replace"
)

// file keeps the keys over a restart, so that tokens are not refused because an issuer cannot be
// reached just then. A nil file keeps none.
type file struct {
	path string
	log  *slog.Logger

	mu   sync.Mutex
	keys map[string]kept // by the names of sources
}

// kept is what the file has of one source.
type kept struct {
	Keys    string    `json:"keys"`
	Fetched time.Time `json:"fetched"`
}

// openFile reads a file; "" means none. A file that cannot be read is started again: its keys can
// be fetched.
func openFile(path string, log *slog.Logger) *file {
	if path == "" {
		return nil
	}
	f := &file{path: path, log: log, keys: map[string]kept{}}
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &f.keys)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		log.Warn("the file of fetched keys cannot be read, and is started again", "file", path, "error", err)
		f.keys = map[string]kept{}
	}
	return f
}

// nameOf tells apart the URL of keys and the URL of an issuer.
func nameOf(at mesh.KeySource) string {
	if at.URL == "" {
		return "issuer " + at.Issuer
	}
	return at.URL
}

// get returns what the file has of a source, if it is not too old.
func (f *file) get(at mesh.KeySource, maxAge time.Duration) (kept, bool) {
	if f == nil {
		return kept{}, false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	k, some := f.keys[nameOf(at)]
	if !some || time.Since(k.Fetched) > maxAge {
		return kept{}, false
	}
	set, err := webkeys.Read(k.Keys)
	if err != nil { // the file was changed by hand
		return kept{}, false
	}
	return kept{Keys: set.Canonical(), Fetched: k.Fetched}, true
}

// put writes the file with the keys of a source.
func (f *file) put(at mesh.KeySource, k kept) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.keys[nameOf(at)] = k
	if err := f.write(); err != nil {
		f.log.Warn("fetched keys cannot be kept for the next start", "file", f.path, "error", err)
	}
}

// forgotten is how long the file keeps keys that are not fetched any more.
const forgotten = 30 * 24 * time.Hour

func (f *file) write() error {
	for at, k := range f.keys {
		if time.Since(k.Fetched) > forgotten {
			delete(f.keys, at)
		}
	}
	text, err := json.MarshalIndent(f.keys, "", "  ")
	if err != nil {
		return fmt.Errorf("write down keys: %w", err)
	}
	return replace.File(f.path, text)
}
