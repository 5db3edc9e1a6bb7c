package files

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"go.yaml.in/yaml/v3"

	"github.com/pgmesh/pgmesh/internal/kit/panics"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/registry"
	"github.com/pgmesh/pgmesh/registry/service"
)

// mostBytes bounds a file: an instance takes about a hundred bytes.
const mostBytes = 64 << 20

// file is a file as it was last read.
type file struct {
	sum       [sha256.Size]byte
	resources []*kinds.Resource // of the last content that could be used
	err       error             // why the present content cannot be used
}

// again reads a file, which may be new, and returns it as it is now, or that it is gone.
func (f *file) again(path, name string, in *Folder) (now *file, gone bool) {
	if f == nil {
		f = &file{}
	}
	content, err := read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, true
	}
	sum := sha256.Sum256(content)
	if err == nil && sum == f.sum {
		return f, false
	}
	resources := f.resources
	if err == nil {
		resources, err = panics.Receive(func() ([]*kinds.Resource, error) { return in.parse(name, content) })
	}
	if err != nil {
		return &file{sum: sum, resources: f.resources, err: err}, false
	}
	registry.KeepSame(f.resources, resources)
	return &file{sum: sum, resources: resources}, false
}

// said reports whether what is wrong with a file is other than before.
func (f *file) said(before *file) bool {
	var was error
	if before != nil {
		was = before.err
	}
	switch {
	case f.err == nil || was == nil:
		return (f.err == nil) != (was == nil)
	default:
		return f.err.Error() != was.Error()
	}
}

func read(path string) ([]byte, error) {
	in, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	content, err := io.ReadAll(io.LimitReader(in, mostBytes+1))
	if err == nil && len(content) > mostBytes {
		err = fmt.Errorf("%s has more than %d MiB", path, mostBytes>>20)
	}
	return content, err
}

// Parse reads services: YAML or JSON documents, each of which has a list "services".
func Parse(content []byte) ([]service.Service, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	decoder.KnownFields(true)
	var all []service.Service
	for {
		var document struct {
			Services []service.Service `yaml:"services"`
		}
		err := decoder.Decode(&document)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		all = append(all, document.Services...)
	}
}
