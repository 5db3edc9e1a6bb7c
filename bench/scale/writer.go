package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// writer writes resources to where the server under test reads them.
type writer interface {
	// write replaces resources atomically, and returns the moment just before they took effect.
	write(ctx context.Context, c change) (time.Time, error)
	close()
}

// database writes to a mesh in Postgres.
type database struct {
	conn *pgx.Conn
	// empty means that there are no rows to replace, which makes writing faster.
	empty bool
}

func openDatabase(ctx context.Context, url string, empty bool) (*database, error) {
	conn, err := pgx.Connect(ctx, url)
	return &database{conn, empty}, err
}

// rowsAtOnce is how many rows one statement writes.
const rowsAtOnce = 1000

// write returns the time before COMMIT.
func (d *database) write(ctx context.Context, c change) (time.Time, error) {
	tx, err := d.conn.Begin(ctx)
	if err != nil {
		return time.Time{}, err
	}
	defer tx.Rollback(ctx)
	for rows := c.resources; len(rows) > 0; {
		n := min(len(rows), rowsAtOnce)
		if err := d.put(ctx, tx, rows[:n]); err != nil {
			return time.Time{}, err
		}
		rows = rows[n:]
	}
	d.empty = false
	start := time.Now()
	return start, tx.Commit(ctx)
}

func (d *database) put(ctx context.Context, tx pgx.Tx, rows []resource) error {
	instead := "ON CONFLICT (kind, api_group, namespace, name) DO UPDATE SET spec = EXCLUDED.spec"
	if d.empty {
		instead = ""
	}
	var kinds, namespaces, names, specs []string
	for _, r := range rows {
		kinds, namespaces = append(kinds, r.kind), append(namespaces, r.namespace)
		names, specs = append(names, r.name), append(specs, text(r.spec))
	}
	_, err := tx.Exec(ctx, `INSERT INTO mesh.resources (api_group, kind, namespace, name, spec)
		SELECT $1, kind, namespace, name, spec::jsonb FROM unnest($2::text[], $3::text[], $4::text[], $5::text[]) AS r (kind, namespace, name, spec)
		`+instead, networking, kinds, namespaces, names, specs)
	return err
}

func (d *database) close() { d.conn.Close(context.Background()) }

// directory writes files that the server under test watches.
type directory struct {
	path  string
	files map[string][]resource // by name, in order
	of    map[string]string     // the file of each resource
}

// resourcesAFile bounds how much must be read for a change, here and in the server.
const resourcesAFile = 200

func newDirectory(path string) *directory {
	return &directory{path: path, files: map[string][]resource{}, of: map[string]string{}}
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
func (d *directory) put(r resource) string {
	key := r.kind + "/" + r.namespace + "/" + r.name
	if file, there := d.of[key]; there {
		for i, old := range d.files[file] {
			if old.kind == r.kind && old.namespace == r.namespace && old.name == r.name {
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
	if err := os.WriteFile(hidden, []byte(documents(d.files[name])), 0o644); err != nil {
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
	cmd.Stdin = strings.NewReader(documents(ch.resources))
	start := time.Now()
	if out, err := cmd.CombinedOutput(); err != nil {
		return start, fmt.Errorf("%s: %w\n%s", string(c), err, out)
	}
	return start, nil
}

func (command) close() {}
