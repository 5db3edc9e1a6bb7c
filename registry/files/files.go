// Package files is a registry of files: services as an inventory, a script or a configuration
// management writes them, in the short form of the model of package service.
//
// A file that cannot be read as services changes nothing: what it said before stays. A folder that
// cannot be read is away.
package files

import (
	"context"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pgmesh/pgmesh/internal/kit/folder"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/registry"
)

// Folder is a folder of services, or what a run of it knows.
type Folder struct {
	path      string
	name      string
	namespace string
	log       *slog.Logger
}

// New returns the registry of a folder. Services that name no namespace are in the given one.
func New(path, name, namespace string, log *slog.Logger) *Folder {
	return &Folder{path: path, name: name, namespace: namespace, log: log}
}

// Name is that of the registry.
func (f *Folder) Name() string { return f.name }

// Run reads the folder whenever it changes.
func (f *Folder) Run(ctx context.Context, sink registry.Sink) error {
	r := &run{Folder: f, sink: sink, files: map[string]*file{}}
	return folder.Watch(ctx, f.path, f.log, func() error { r.look(); return nil })
}

// run is what a run knows.
type run struct {
	*Folder

	sink  registry.Sink
	files map[string]*file // by path below the folder
	held  map[kinds.Key]*kinds.Resource
	away  bool
	told  bool
}

// extensions are those of files that are read.
var extensions = []string{".yaml", ".yml", ".json"}

// attempts bounds how often a folder is read that keeps changing.
const attempts = 10

// look reads what is new, and tells of it. A folder that was moved while it was read seems to have
// lost files, so it is read until it is found the same twice.
func (r *run) look() {
	for range attempts {
		same, err := r.readOnce()
		if err != nil {
			r.away = true
			r.sink.Away(err)
			return
		}
		if same {
			r.back()
			r.tell(r.merge())
			return
		}
	}
}

func (r *run) back() {
	if r.away {
		r.away = false
		r.sink.Away(nil)
	}
}

// readOnce reads the files that are new or different, and reports whether nothing was gone
// meanwhile.
func (r *run) readOnce() (same bool, err error) {
	before, err := folder.List(r.path, extensions...)
	if err != nil {
		return false, err
	}
	missed := r.read(before)
	after, err := folder.List(r.path, extensions...)
	return !missed && slices.Equal(before, after), err
}

// read reads files. Missed says that one was gone when it was to be read: what is left out is not
// known then.
func (r *run) read(found []string) (missed bool) {
	next := make(map[string]*file, len(found))
	for _, path := range found {
		name := r.below(path)
		before := r.files[name]
		now, gone := before.again(path, name, r.Folder)
		if missed = missed || gone; gone {
			continue
		}
		next[name] = now
		if now.said(before) {
			r.sink.Bad(name, now.err)
		}
	}
	if missed {
		maps.Copy(r.files, next)
		return true
	}
	for name, f := range r.files {
		if next[name] == nil && f.err != nil {
			r.sink.Bad(name, nil)
		}
	}
	r.files = next
	return false
}

func (r *run) below(path string) string {
	if rest, err := filepath.Rel(r.path, path); err == nil && !strings.HasPrefix(rest, "..") {
		return rest
	}
	return path
}

// merge joins the files in the order of their paths. If two have a service, the first counts.
func (r *run) merge() map[kinds.Key]*kinds.Resource {
	out := map[kinds.Key]*kinds.Resource{}
	for _, name := range slices.Sorted(maps.Keys(r.files)) {
		for _, resource := range r.files[name].resources {
			if out[resource.Key()] == nil {
				out[resource.Key()] = resource
			}
		}
	}
	return out
}

func (r *run) tell(now map[kinds.Key]*kinds.Resource) {
	before := r.held
	r.held = now
	if !r.told {
		r.told = true
		r.sink.Replace(slices.Collect(maps.Values(now)))
		return
	}
	if changes := kinds.Difference(before, now); len(changes) > 0 {
		r.sink.Apply(changes)
	}
}

var _ registry.Registry = (*Folder)(nil)

// parse makes the resources of what a file says.
func (f *Folder) parse(name string, content []byte) ([]*kinds.Resource, error) {
	services, err := Parse(content)
	if err != nil {
		return nil, err
	}
	var out []*kinds.Resource
	for i := range services {
		s := &services[i]
		s.Entry = name
		if s.Namespace == "" {
			s.Namespace = f.namespace
		}
		made, err := s.Resources(f.name)
		if err != nil {
			return nil, err
		}
		out = append(out, made...)
	}
	return out, nil
}
