package modules

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/pgmesh/pgmesh/internal/kit/replace"
)

const (
	// mostPlaces bounds how many places are remembered.
	mostPlaces = 4096
	// mostVersions bounds how many plugins of one place are. The place of one that is forgotten is
	// asked again.
	mostVersions = 4096
)

// index is what is known of modules and of the places that they came from. It is saved as JSON.
type index struct {
	// Salt makes keys of places that nobody can guess the credentials from by a table.
	Salt    string             `json:"salt"`
	Modules map[string]*Module `json:"modules"` // by digest
	Places  map[string]*place  `json:"places"`  // by key
}

// place is what was at a place when it was asked last.
type place struct {
	Module string `json:"module"`
	Image  string `json:"image,omitempty"`
	// Digests are those that plugins wanted, and that were found to fit.
	Digests []string `json:"digests,omitempty"`
	// Versions are those of plugins that the place was asked for.
	Versions map[string]string `json:"versions"`
	Asked    time.Time         `json:"asked"`
}

func (s *Store) indexFile() string { return filepath.Join(s.Folder, "index.json") }

// readIndex reads the file. If it cannot be read, nothing is known, and all is fetched again.
func readIndex(path string, log *slog.Logger) index {
	var i index
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &i)
	}
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			log.Warn("what is known of Wasm modules cannot be read; they are fetched again", "file", path, "error", err)
		}
		i = index{}
	}
	if i.Salt == "" || i.Modules == nil || i.Places == nil {
		i = index{Salt: rand.Text(), Modules: map[string]*Module{}, Places: map[string]*place{}}
	}
	maps.DeleteFunc(i.Modules, func(_ string, m *Module) bool { return m == nil })
	maps.DeleteFunc(i.Places, func(_ string, p *place) bool { return p == nil || p.Versions == nil || i.Modules[p.Module] == nil })
	return i
}

func (i *index) forget(digest string) {
	delete(i.Modules, digest)
	maps.DeleteFunc(i.Places, func(_ string, p *place) bool { return p.Module == digest })
}

// save writes the file, once there is something to save. The caller holds s.mu.
func (s *Store) save() error {
	if len(s.index.Modules)+len(s.index.Places) == 0 {
		if _, err := os.Stat(s.indexFile()); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
	}
	text, err := json.Marshal(s.index)
	if err != nil {
		return err
	}
	return replace.File(s.indexFile(), text)
}

// Save saves what is known.
func (s *Store) Save() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.save()
}

// Place returns the key of a place: a URL, as somebody with these credentials sees it. Others have
// to be let in by themselves to use what is kept of it.
func (s *Store) Place(url, credentials string) string {
	sum := sha256.Sum256([]byte(s.index.Salt + "\x00" + url + "\x00" + credentials))
	return hex.EncodeToString(sum[:])
}

// At returns the module that was at a place when it was asked last, and whether it was asked for
// this version of a plugin; "" if nothing is known.
func (s *Store) At(key, plugin, version string) (digest string, forThis bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.index.Places[key]
	if p == nil {
		return "", false
	}
	known, has := p.Versions[plugin]
	return p.Module, has && known == version
}

// In returns the module that an image was found to have; "" if that is not known. Whoever may read
// the image may have it.
func (s *Store) In(image string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.index.Places {
		if image != "" && p.Image == image {
			return p.Module
		}
	}
	return ""
}

// Matches reports whether what is at a place was found to have a digest, which may be the image's.
func (s *Store) Matches(key, digest string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.index.Places[key]
	return p != nil && slices.Contains(p.Digests, digest)
}

// Asked is what came of asking a place.
type Asked struct {
	Module, Image string
	Digest        string            // that fits what is there; "" if none was wanted
	Versions      map[string]string // of the plugins that wanted it
}

// Note records what is at a place.
func (s *Store) Note(key string, a Asked) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.index.Places[key]
	if p == nil || p.Module != a.Module || len(p.Versions)+len(a.Versions) > mostVersions {
		s.forgetPlace()
		p = &place{Versions: map[string]string{}}
		s.index.Places[key] = p
	}
	p.Module, p.Image, p.Asked = a.Module, a.Image, time.Now()
	if a.Digest != "" && !slices.Contains(p.Digests, a.Digest) {
		p.Digests = append(p.Digests, a.Digest)
	}
	maps.Copy(p.Versions, a.Versions)
}

// forgetPlace forgets the place that was asked longest ago, if there are too many.
func (s *Store) forgetPlace() {
	if len(s.index.Places) < mostPlaces {
		return
	}
	oldest := ""
	for key, p := range s.index.Places {
		if oldest == "" || p.Asked.Before(s.index.Places[oldest].Asked) {
			oldest = key
		}
	}
	delete(s.index.Places, oldest)
}
