// Package files reads configuration from a directory of YAML, and watches it while discovery runs.
// Each save becomes one batch.
//
// A file that cannot be parsed changes nothing: its last content stays in force, and all other
// files are applied. At the start there is no last content, so discovery waits until every file can
// be parsed, and its proxies keep what they have.
package files

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pgmesh/pgmesh/internal/kit/folder"
	"github.com/pgmesh/pgmesh/kinds"
)

// extensions are those of files that are read.
var extensions = []string{".yaml", ".yml", ".json"}

// Directory has the files under a path and in its folders: *.yaml, *.yml and *.json, without those
// whose names begin with a dot.
type Directory struct {
	path string
	log  *slog.Logger

	mu       sync.Mutex
	files    map[string]*file              // by path
	held     map[kinds.Key]*kinds.Resource // what was handed on
	twice    map[kinds.Key]string          // where a resource is found a second time
	unread   error                         // why the directory itself cannot be read
	begun    bool                          // a first batch was handed on
	revision int64                         // counts batches
	version  string                        // a hash of the files that were read last
	progress progress
}

// New returns the source. The directory may be created later; nothing is served before.
func New(path string, log *slog.Logger, metrics prometheus.Registerer) *Directory {
	d := &Directory{path: path, log: log, files: map[string]*file{}, twice: map[kinds.Key]string{}}
	metrics.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "pgmesh_discovery_config_files", Help: "Files of the directory of configuration.",
		}, func() float64 { return float64(len(d.Status().Files)) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "pgmesh_discovery_config_files_unusable",
			Help: "Files of the directory of configuration that cannot be read as resources; what they said before is in force.",
		}, func() float64 { return float64(len(d.Status().Unusable())) }),
	)
	return d
}

// Name is "files".
func (*Directory) Name() string { return "files" }

// Ready says what keeps the directory from being served, or that some files are not.
func (d *Directory) Ready() (string, error) {
	s := d.Status()
	problem := s.Problem()
	if !s.Begun {
		if problem == "" {
			problem = "not read yet"
		}
		return "", fmt.Errorf("the configuration in %s: %s", d.path, problem)
	}
	if problem != "" {
		return fmt.Sprintf("in %s what was there before is in force: %s", d.path, problem), nil
	}
	return "", nil
}

// Run follows the directory until the context ends.
func (d *Directory) Run(ctx context.Context, apply func(kinds.Batch) error) error {
	return folder.Watch(ctx, d.path, d.log, func() error { return d.look(apply) })
}

// look reads what changed since the last time, and hands on the result.
func (d *Directory) look(apply func(kinds.Batch) error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	version, err := d.read()
	if err != nil {
		d.cannotRead(err)
		return nil
	}
	d.unread = nil
	if !d.begun && d.unusable() > 0 {
		return nil
	}
	resources := d.merge()
	d.version = version
	if changes := kinds.Difference(d.held, resources); len(changes) > 0 || !d.begun {
		return d.hand(resources, changes, apply)
	}
	d.progress.same(version)
	return nil
}

// hand hands on what the files say now.
func (d *Directory) hand(resources map[kinds.Key]*kinds.Resource, changes []kinds.Change, apply func(kinds.Batch) error) error {
	d.revision++
	d.held, d.begun = resources, true
	if err := apply(kinds.Batch{Revision: d.revision, Changes: changes, InForce: []func(){d.progress.hand(d.version)}}); err != nil {
		return err
	}
	d.log.Info("took over configuration", "folder", d.path, "changes", len(changes), "resources", len(resources))
	return nil
}

func (d *Directory) cannotRead(err error) {
	if d.unread == nil || d.unread.Error() != err.Error() {
		consequence := "what was there before stays in force"
		if !d.begun {
			consequence = "nothing is served until it can be read"
		}
		d.log.Error("cannot read the directory of configuration; "+consequence, "folder", d.path, "error", err)
	}
	d.unread = err
}

// attempts bounds how often a directory is read that keeps changing.
const attempts = 10

// read reads the files that are new or different, and returns a hash of all. If something changed,
// it reads until it finds the same twice: a link to a folder may be swapped while its files are
// read.
func (d *Directory) read() (version string, err error) {
	version = d.version
	for range attempts {
		found, err := folder.List(d.path, extensions...)
		if err != nil {
			return "", err
		}
		d.refresh(found)
		before := version
		if version = d.sum(); version == before {
			break
		}
	}
	return version, nil
}

// refresh reads the files that are new or different.
func (d *Directory) refresh(found []string) {
	next := make(map[string]*file, len(found))
	for _, path := range found {
		next[path] = d.files[path].again(path, d.log)
	}
	d.files = next
}

func (d *Directory) sum() string {
	sums := make(map[string][sha256.Size]byte, len(d.files))
	for path, f := range d.files {
		sums[path] = f.sum
	}
	return versionOf(sums)
}

func (d *Directory) unusable() (n int) {
	for _, f := range d.files {
		if f.err != nil {
			n++
		}
	}
	return n
}

// merge joins the files in the order of their paths. If two have a resource, the first counts.
func (d *Directory) merge() map[kinds.Key]*kinds.Resource {
	out, owner, twice := map[kinds.Key]*kinds.Resource{}, map[kinds.Key]string{}, map[kinds.Key]string{}
	for _, path := range d.paths() {
		for _, document := range d.files[path].documents {
			key := document.Resource.Key()
			if out[key] == nil {
				out[key], owner[key] = document.Resource, path
				continue
			}
			twice[key] = path
			if d.twice[key] != path {
				d.log.Warn("two files have this resource, and the first one's is in force; remove it from the other",
					"resource", key.String(), "first", owner[key], "other", path)
			}
		}
	}
	d.twice = twice
	return out
}

func (d *Directory) paths() []string {
	out := make([]string, 0, len(d.files))
	for path := range d.files {
		out = append(out, path)
	}
	slices.Sort(out)
	return out
}

// Status describes the directory.
type Status struct {
	Begun     bool   `json:"begun"`   // a first batch was handed on
	Version   string `json:"version"` // a hash of the files in force: proxies are served nothing older
	Resources int    `json:"resources"`
	Error     string `json:"error,omitempty"` // why the directory cannot be read
	Files     []File `json:"files"`
}

// File describes one file.
type File struct {
	Path  string `json:"path"`
	Error string `json:"error,omitempty"` // why it cannot be used
}

// Status returns the state of the directory when it was last read.
func (d *Directory) Status() Status {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := Status{Begun: d.begun, Version: d.progress.version(), Resources: len(d.held), Files: []File{}}
	if d.unread != nil {
		s.Error = d.unread.Error()
	}
	for _, path := range d.paths() {
		f := File{Path: path}
		if err := d.files[path].err; err != nil {
			f.Error = err.Error()
		}
		s.Files = append(s.Files, f)
	}
	return s
}

// Unusable lists the files that cannot be used.
func (s Status) Unusable() []File {
	return slices.DeleteFunc(slices.Clone(s.Files), func(f File) bool { return f.Error == "" })
}

// Problem says in one line what is wrong, "" if nothing is.
func (s Status) Problem() string {
	parts := []string{}
	if s.Error != "" {
		parts = append(parts, s.Error)
	}
	for _, f := range s.Unusable() {
		first, _, _ := strings.Cut(f.Error, "\n")
		parts = append(parts, first)
	}
	return strings.Join(parts, "; ")
}
