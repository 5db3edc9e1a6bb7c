package files

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"

	"github.com/pgmesh/pgmesh/internal/kit/folder"
	"github.com/pgmesh/pgmesh/kinds"
)

// file is a file as it was last read.
type file struct {
	sum       [sha256.Size]byte
	documents []*kinds.Document // of the last content that could be used
	err       error             // why the present content cannot be used
}

// again reads a file, which may be new, and returns it as it is now.
func (f *file) again(path string, log *slog.Logger) *file {
	if f == nil {
		f = &file{}
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return f.failed(err, path, log)
	}
	sum := sha256.Sum256(content)
	if sum == f.sum {
		return f
	}
	documents, err := parse(path, content, log)
	if err != nil {
		next := f.failed(err, path, log)
		next.sum = sum
		return next
	}
	f.keepSame(documents)
	return &file{sum: sum, documents: documents}
}

// keepSame puts back resources that did not change, so that their pointers stay the same.
func (f *file) keepSame(documents []*kinds.Document) {
	before := make(map[kinds.Key]*kinds.Document, len(f.documents))
	for _, d := range f.documents {
		before[d.Resource.Key()] = d
	}
	for i, d := range documents {
		if old := before[d.Resource.Key()]; old != nil && same(old, d) {
			documents[i] = old
		}
	}
}

func same(a, b *kinds.Document) bool {
	return bytes.Equal(a.Spec, b.Spec) && a.Resource.CreateTime.Equal(b.Resource.CreateTime) &&
		maps.Equal(a.Resource.Labels, b.Resource.Labels) && maps.Equal(a.Resource.Annotations, b.Resource.Annotations)
}

// failed keeps the last content that could be used.
func (f *file) failed(err error, path string, log *slog.Logger) *file {
	if f.err == nil || f.err.Error() != err.Error() {
		log.Error("cannot use a file of configuration; what it said before stays in force", "file", path, "error", err)
	}
	return &file{documents: f.documents, err: err}
}

func parse(path string, content []byte, log *slog.Logger) ([]*kinds.Document, error) {
	parser := kinds.Parser{DefaultNamespace: "default", Secrets: true, Foreign: func(apiVersion, kind string) {
		log.Info("left out a document of a kind that a mesh does not have", "file", path, "api_version", apiVersion, "kind", kind)
	}}
	documents, err := parser.Parse(path, content)
	if err != nil {
		return nil, err
	}
	return documents, warn(path, documents, log)
}

// warn logs what discovery does not act on.
func warn(path string, documents []*kinds.Document, log *slog.Logger) error {
	for _, d := range documents {
		found, err := d.Resource.Kind.Unsupported(d.Spec)
		if err != nil {
			return err
		}
		for _, v := range found {
			log.Warn("something in a file of configuration is not acted on", "file", path, "resource", d.Resource.Key().String(), "path", v.Path, "reason", v.Reason)
		}
	}
	return nil
}

// Version returns the version that a directory's status will have once its present files are in
// force.
func Version(path string) (string, error) {
	found, err := folder.List(path, extensions...)
	if err != nil {
		return "", err
	}
	sums := make(map[string][sha256.Size]byte, len(found))
	for _, p := range found {
		content, err := os.ReadFile(p)
		if err != nil {
			return "", err
		}
		sums[p] = sha256.Sum256(content)
	}
	return versionOf(sums), nil
}

// versionOf is a hash of the paths and contents of files, whether they can be used or not.
func versionOf(sums map[string][sha256.Size]byte) string {
	digest := sha256.New()
	for _, path := range slices.Sorted(maps.Keys(sums)) {
		fmt.Fprintf(digest, "%q %x\n", path, sums[path])
	}
	return hex.EncodeToString(digest.Sum(nil)[:12])
}
