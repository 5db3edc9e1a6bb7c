package world

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// Database writes to a mesh in Postgres.
type Database struct {
	conn *pgx.Conn
	// empty means that there are no rows to replace, which makes writing faster.
	empty bool
}

// Open connects to a mesh.
func Open(ctx context.Context, url string, empty bool) (*Database, error) {
	conn, err := pgx.Connect(ctx, url)
	return &Database{conn, empty}, err
}

// rowsAtOnce is how many rows one statement writes.
const rowsAtOnce = 1000

// Write replaces resources in one transaction, and returns the time before COMMIT.
func (d *Database) Write(ctx context.Context, resources []Resource) (time.Time, error) {
	tx, err := d.conn.Begin(ctx)
	if err != nil {
		return time.Time{}, err
	}
	defer tx.Rollback(ctx)
	for rows := resources; len(rows) > 0; {
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

func (d *Database) put(ctx context.Context, tx pgx.Tx, rows []Resource) error {
	instead := "ON CONFLICT (kind, api_group, namespace, name) DO UPDATE SET spec = EXCLUDED.spec"
	if d.empty {
		instead = ""
	}
	var kinds, namespaces, names, specs []string
	for _, r := range rows {
		kinds, namespaces = append(kinds, r.Kind), append(namespaces, r.Namespace)
		names, specs = append(names, r.Name), append(specs, Text(r.Spec))
	}
	_, err := tx.Exec(ctx, `INSERT INTO mesh.resources (api_group, kind, namespace, name, spec)
		SELECT $1, kind, namespace, name, spec::jsonb FROM unnest($2::text[], $3::text[], $4::text[], $5::text[]) AS r (kind, namespace, name, spec)
		`+instead, Networking, kinds, namespaces, names, specs)
	return err
}

// Close ends the connection.
func (d *Database) Close() { d.conn.Close(context.Background()) }
