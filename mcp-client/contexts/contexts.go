// Package contexts stores, in a file, the settings that the command line needs for each server.
//
// A context is a set of settings named after flags, so any flag can be stored without this package
// knowing it:
//
//	current: prod
//	contexts:
//	  prod:
//	    server: mesh.example.com:15020
//	    namespace: shop
package contexts

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/pgmesh/pgmesh/internal/kit/replace"
)

// Context has settings by name.
type Context map[string]string

// File is the content of one file.
type File struct {
	// Current is the context to use when none is named, "" if there is none.
	Current  string             `yaml:"current,omitempty"`
	Contexts map[string]Context `yaml:"contexts"`
}

// Names lists the names of the contexts, sorted.
func (f *File) Names() []string { return slices.Sorted(maps.Keys(f.Contexts)) }

// Path returns the path of the file from the environment, or "" if the environment does not give
// one.
func Path(getenv func(string) string) string {
	if path := getenv("PGMESH_CONFIG"); path != "" {
		return path
	}
	home := getenv("XDG_CONFIG_HOME")
	if home == "" {
		user := getenv("HOME")
		if user == "" {
			return ""
		}
		home = filepath.Join(user, ".config")
	}
	return filepath.Join(home, "pgmesh", "config.yaml")
}

// othersMayRead has the permission bits of group and others.
const othersMayRead fs.FileMode = 0o077

// Load reads a file. A missing file counts as empty. It is an error if the file has a secret, which
// is a setting of one of the given names, and others than its owner have access.
func Load(path string, secrets []string) (*File, error) {
	f := &File{Contexts: map[string]Context{}}
	if path == "" {
		return f, nil
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the contexts: %w", err)
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(f); err != nil && !errors.Is(err, io.EOF) { // the latter is an empty file
		return nil, fmt.Errorf("read the contexts in %s: %w", path, err)
	}
	if f.Contexts == nil {
		f.Contexts = map[string]Context{}
	}
	return f, f.checkMode(path, secrets)
}

func (f *File) checkMode(path string, secrets []string) error {
	name, found := f.secret(secrets)
	if !found {
		return nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("read the contexts: %w", err)
	}
	if mode := info.Mode().Perm(); mode&othersMayRead != 0 {
		return fmt.Errorf("%s has the mode %#o, and the context %s in it has a secret that is for you alone: chmod 600 %s", path, mode, name, path)
	}
	return nil
}

// secret returns a context that has a secret.
func (f *File) secret(secrets []string) (name string, found bool) {
	for _, name := range f.Names() {
		for _, s := range secrets {
			if f.Contexts[name][s] != "" {
				return name, true
			}
		}
	}
	return "", false
}

// Save replaces the file atomically, readable by its owner only. It follows symbolic links.
func (f *File) Save(path string) error {
	if path == "" {
		return errors.New("there is no place for the contexts: set HOME, or name a file with PGMESH_CONFIG")
	}
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	text, err := yaml.Marshal(f)
	if err != nil {
		return fmt.Errorf("write the contexts: %w", err)
	}
	if err := replace.File(path, text); err != nil {
		return fmt.Errorf("write the contexts: %w", err)
	}
	return nil
}
