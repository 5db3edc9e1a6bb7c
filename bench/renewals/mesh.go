package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/jackc/pgx/v5"

	"github.com/pgmesh/pgmesh/internal/testbench/stack"
	"github.com/pgmesh/pgmesh/store/embedded"
)

// mesh is the control plane.
type mesh struct {
	options  *options
	dir      string
	postgres *embedded.Server
	stack    *stack.Stack
	db       *pgx.Conn
}

func startMesh(ctx context.Context, o *options) (m *mesh, err error) {
	m = &mesh{options: o}
	if m.dir, err = os.MkdirTemp("", "pgmesh-renewals-"); err != nil {
		return nil, err
	}
	if err := m.start(ctx); err != nil {
		m.stop()
		return nil, err
	}
	return m, nil
}

func (m *mesh) start(ctx context.Context) (err error) {
	bin := m.options.bin
	if bin == "" {
		bin = m.dir
		fmt.Fprintln(os.Stderr, "building the programs …")
		if err := stack.Build(ctx, bin, "mcp-server", "mcp-client", "discovery"); err != nil {
			return err
		}
	}
	// As in production, Postgres commits to the disk.
	if m.postgres, err = embedded.Start(ctx, embedded.Options{DataDir: filepath.Join(m.dir, "postgres")}); err != nil {
		return err
	}
	if m.stack, err = stack.NewSecure(bin, m.dir, m.postgres.URL(), nil); err != nil {
		return err
	}
	m.stack.DiscoveryFlags("--max-join-rate", "0", "--log-level", "warn") // all machines have the same address
	if err := m.stack.Start(ctx); err != nil {
		return err
	}
	if m.db, err = pgx.Connect(ctx, m.postgres.URL()); err != nil {
		return err
	}
	_, err = m.db.Exec(ctx, "INSERT INTO mesh.settings (name, value) VALUES ('certificate_lifetime', $1)", fmt.Sprintf("%d seconds", int(m.options.lifetime.Seconds())))
	return err
}

// recorded is how many certificates the mesh has recorded.
func (m *mesh) recorded(ctx context.Context) (rows int, err error) {
	err = m.db.QueryRow(ctx, "SELECT count(*) FROM mesh.certificates WHERE credential IN ('token', 'certificate') AND enrolment <> '' AND refusal IS NULL AND namespace = 'shop'").Scan(&rows)
	return rows, err
}

func (m *mesh) stop() {
	if m.db != nil {
		m.db.Close(context.Background())
	}
	if m.stack != nil {
		m.stack.Stop()
	}
	if m.postgres != nil {
		m.postgres.Stop()
	}
	os.RemoveAll(m.dir)
}
