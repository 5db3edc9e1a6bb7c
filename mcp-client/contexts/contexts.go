// Package contexts keeps, in a file, what the command line needs to know of each server that somebody works with.
//
// A context is a set of settings by the names of the flags that they stand for, so that every flag can be kept without this package
// knowing of it:
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

	"github.com/pgmesh/pgmesh/internal/replace"
)

// Context is settings by name.
type Context map[string]string

// File is what one file holds.
type File struct {
	// Current is the context that is meant where none is named, "" if there is none.
	Current  string             `yaml:"current,omitempty"`
	Contexts map[string]Context `yaml:"contexts"`
}

// Names lists the contexts in order.
func (f *File) Names() []string { return slices.Sorted(maps.Keys(f.Contexts)) }

// Path is where the file is, from the variables of the environment: "" if that cannot be told.
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

// othersMayRead has the bits of a mode that let others than the owner in.
const othersMayRead fs.FileMode = 0o077

// Load reads a file. One that does not exist is an empty one. It is an error if there is a secret in it, a setting of one of these
// names, and others may read or write it.
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

// secret finds a context with a secret in it.
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

// Save writes the file for its owner alone, whole or not at all. A link stays a link.
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
