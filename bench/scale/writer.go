package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/pgmesh/pgmesh/bench/world"
)

// writer writes resources to where the server under test reads them.
type writer interface {
	// write replaces resources atomically, and returns the moment just before they took effect.
	write(ctx context.Context, c change) (time.Time, error)
	close()
}

// database writes to a mesh in Postgres.
type database struct{ *world.Database }

func openDatabase(ctx context.Context, url string, empty bool) (*database, error) {
	d, err := world.Open(ctx, url, empty)
	return &database{d}, err
}

// write returns the time before COMMIT.
func (d *database) write(ctx context.Context, c change) (time.Time, error) {
	return d.Write(ctx, c.resources)
}

func (d *database) close() { d.Close() }

// directory writes files that the server under test watches.
type directory struct {
	path  string
	files map[string][]world.Resource // by name, in order
	of    map[string]string           // the file of each resource
}

// resourcesAFile bounds how much must be read for a change, here and in the server.
const resourcesAFile = 200

func newDirectory(path string) *directory {
	return &directory{path: path, files: map[string][]world.Resource{}, of: map[string]string{}}
}

// write replaces the files that have the resources. Each file is replaced atomically, but one after
// the other.
func (d *directory) write(_ context.Context, c change) (time.Time, error) {
	changed := map[string]bool{}
	for _, r := range c.resources {
		changed[d.put(r)] = true
	}
	start := time.Now()
	for name := range changed {
		if err := d.replace(name); err != nil {
			return start, err
		}
	}
	return start, nil
}

// put assigns a resource to a file, and returns the file.
func (d *directory) put(r world.Resource) string {
	key := r.Kind + "/" + r.Namespace + "/" + r.Name
	if file, there := d.of[key]; there {
		for i, old := range d.files[file] {
			if old.Kind == r.Kind && old.Namespace == r.Namespace && old.Name == r.Name {
				d.files[file][i] = r
			}
		}
		return file
	}
	file := fmt.Sprintf("mesh-%04d.yaml", len(d.of)/resourcesAFile)
	d.of[key], d.files[file] = file, append(d.files[file], r)
	return file
}

func (d *directory) replace(name string) error {
	hidden := filepath.Join(d.path, "."+name)
	if err := os.WriteFile(hidden, []byte(world.Documents(d.files[name])), 0o644); err != nil {
		return err
	}
	return os.Rename(hidden, filepath.Join(d.path, name))
}

func (*directory) close() {}

// command passes resources to a command of the user.
type command string

// write returns the time before the command starts.
func (c command) write(ctx context.Context, ch change) (time.Time, error) {
	cmd := exec.CommandContext(ctx, "sh", "-c", string(c))
	cmd.Env = append(os.Environ(), "SCALE_SCENARIO="+ch.scenario)
	cmd.Stdin = strings.NewReader(world.Documents(ch.resources))
	start := time.Now()
	if out, err := cmd.CombinedOutput(); err != nil {
		return start, fmt.Errorf("%s: %w\n%s", string(c), err, out)
	}
	return start, nil
}

func (command) close() {}
