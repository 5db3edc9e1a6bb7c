package pgtest

import (
	"context"
	"fmt"
	"net/url"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pgmesh/pgmesh/store/migration"
)

// Copy is a mesh database and its logical replica, for tests of upgrades by logical replication.
type Copy struct {
	t      testing.TB
	Server *OwnServer // has both databases
	From   string     // URL of the original, which takes writes
	To     string     // URL of the replica
}

// EmptyTables deletes the rows that a migration inserted, because replication copies them again.
const EmptyTables = `DO $$
BEGIN
  SET LOCAL session_replication_role = replica; -- mesh.resources refuses to be emptied
  EXECUTE (SELECT 'TRUNCATE ' || string_agg(c.oid::regclass::text, ', ') FROM pg_class c WHERE c.relnamespace = ANY ('{mesh,mesh_internal}'::regnamespace[]) AND c.relkind = 'r');
END $$`

// Copied publishes the tables of a migrated database and subscribes another database to them, which
// has the schema and no rows.
func Copied(t testing.TB) *Copy {
	t.Helper()
	c := &Copy{t: t, Server: ServerWith(t, map[string]string{"wal_level": "logical"})}
	c.From, c.To = c.Server.URL, c.Server.database("copy")
	if err := migration.Up(t.Context(), c.To); err != nil {
		t.Fatalf("migrating the copy: %v", err)
	}
	c.exec(c.To, EmptyTables)
	c.exec(c.From, "CREATE PUBLICATION upgrade FOR "+c.published())
	// Create the slot separately: within one server, CREATE SUBSCRIPTION would wait for its own
	// transaction.
	c.exec(c.From, "SELECT pg_create_logical_replication_slot('upgrade', 'pgoutput')")
	c.exec(c.To, fmt.Sprintf("CREATE SUBSCRIPTION upgrade CONNECTION '%s' PUBLICATION upgrade WITH (create_slot = false)", c.From))
	c.Server.await(c.To, "SELECT count(*) > 0 AND bool_and(srsubstate = 'r') FROM pg_subscription_rel")
	return c
}

// published returns what to publish: the tables of the mesh, or all tables before Postgres 15,
// which cannot publish a schema.
func (c *Copy) published() string {
	var version int
	c.query(c.From, "SELECT current_setting('server_version_num')::int", &version)
	if version < 150000 {
		return "ALL TABLES"
	}
	return "TABLES IN SCHEMA mesh, mesh_internal"
}

// CaughtUp returns when the replica has everything that was committed.
func (c *Copy) CaughtUp() {
	c.t.Helper()
	var at string
	c.query(c.From, "SELECT pg_current_wal_lsn()::text", &at)
	c.Server.await(c.From, "SELECT count(*) = 1 AND bool_and(replay_lsn >= '"+at+"') FROM pg_stat_replication WHERE application_name = 'upgrade'")
}

// Promote ends the replication and makes the replica take writes.
func (c *Copy) Promote() {
	c.t.Helper()
	c.exec(c.To, "DROP SUBSCRIPTION upgrade")
	if err := migration.Up(c.t.Context(), c.To); err != nil {
		c.t.Fatalf("migrating the copy: %v", err)
	}
}

// database creates a database on the server and returns its URL.
func (s *OwnServer) database(name string) string {
	s.t.Helper()
	s.Exec("CREATE DATABASE " + name)
	u, err := url.Parse(s.URL)
	if err != nil {
		s.t.Fatal(err)
	}
	u.Path = "/" + name
	return u.String()
}

func (c *Copy) exec(at, sql string) {
	c.t.Helper()
	c.with(at, func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, sql)
		return err
	})
}

func (c *Copy) query(at, sql string, into any) {
	c.t.Helper()
	c.with(at, func(ctx context.Context, conn *pgx.Conn) error { return conn.QueryRow(ctx, sql).Scan(into) })
}

func (c *Copy) with(at string, do func(context.Context, *pgx.Conn) error) {
	c.t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, at)
	if err != nil {
		c.t.Fatal(err)
	}
	defer conn.Close(ctx)
	if err := do(ctx, conn); err != nil {
		c.t.Fatal(err)
	}
}
