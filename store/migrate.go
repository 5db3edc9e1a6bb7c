package store

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

const versionTable = "mesh.schema_version"

// Migration is one step of the schema.
type Migration struct {
	Version int64
	Name    string
	Applied time.Time // zero if it was not
}

// Migrate brings the schema to the newest version and makes the database know the same kinds as this program. The role
// needs to be allowed to create a schema in the database, no more. Several programs may do so at once.
func Migrate(ctx context.Context, url string) error {
	return migrating(ctx, url, func(ctx context.Context, conn *pgx.Conn, provider *goose.Provider) error {
		if err := refuseNewer(ctx, provider); err != nil {
			return err
		}
		if _, err := provider.Up(ctx); err != nil {
			return explain("migrating the schema", err)
		}
		if err := syncCode(ctx, conn); err != nil {
			return err
		}
		return syncRegistry(ctx, conn)
	})
}

// MigrateDown brings the schema back to a version, for an older program. Nothing can be written then until that program has
// migrated it. 0 removes the schema, with all that is in it.
func MigrateDown(ctx context.Context, url string, version int64) error {
	return migrating(ctx, url, func(ctx context.Context, conn *pgx.Conn, provider *goose.Provider) error {
		have, newest, err := provider.GetVersions(ctx)
		if err != nil {
			return explain("reading the version of the schema", err)
		}
		if have > newest {
			return fits(have, have, newest)
		}
		if version >= have {
			return fmt.Errorf("the schema has version %d, from which there is no way down to %d", have, version)
		}
		return migrateDown(ctx, conn, provider, version)
	})
}

func migrateDown(ctx context.Context, conn *pgx.Conn, provider *goose.Provider, version int64) error {
	if err := dropCode(ctx, conn); err != nil {
		return err
	}
	if _, err := provider.DownTo(ctx, version); err != nil {
		return explain("migrating the schema down", err)
	}
	if version > 0 {
		return nil
	}
	_, err := conn.Exec(ctx, unbar+"DROP TABLE "+versionTable+"; DROP SCHEMA mesh")
	return explain("removing the schema", err)
}

// MigrationStatus lists the migrations that this program knows.
func MigrationStatus(ctx context.Context, url string) ([]Migration, error) {
	var list []Migration
	err := migrating(ctx, url, func(ctx context.Context, _ *pgx.Conn, provider *goose.Provider) error {
		known, err := provider.Status(ctx)
		for _, m := range known {
			list = append(list, Migration{Version: m.Source.Version, Name: m.Source.Path, Applied: m.AppliedAt})
		}
		return explain("reading the version of the schema", err)
	})
	return list, err
}

// migrating runs do alone: other programs that migrate the same database wait.
func migrating(ctx context.Context, url string, do func(context.Context, *pgx.Conn, *goose.Provider) error) error {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return fmt.Errorf("reading the database URL: %w", err)
	}
	config.RuntimeParams["application_name"] = "pgmesh migrate"
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return explain("connecting to the database", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if err := lockSchema(ctx, conn); err != nil {
		return explain("preparing the schema mesh", err)
	}
	db := stdlib.OpenDB(*config)
	defer db.Close()
	files, err := fs.Sub(migrationFiles, "migrations")
	if err != nil {
		return err
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, db, files, goose.WithTableName(versionTable), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return fmt.Errorf("reading the migrations: %w", err)
	}
	return do(ctx, conn, provider)
}

// lockSchema takes a lock that ends with the connection. Postgres demands the right to create a schema also of those who
// would find it there, so that is not left to IF NOT EXISTS.
func lockSchema(ctx context.Context, conn *pgx.Conn) error {
	// "mesh" in ASCII, and the second lock of ours; the first is taken at commit.
	if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock(1835365224, 2)"); err != nil {
		return err
	}
	var exists bool
	if err := conn.QueryRow(ctx, "SELECT to_regnamespace('mesh') IS NOT NULL").Scan(&exists); err != nil || exists {
		return err
	}
	_, err := conn.Exec(ctx, "CREATE SCHEMA mesh")
	return err
}

// refuseNewer keeps an old program from touching what it cannot know.
func refuseNewer(ctx context.Context, provider *goose.Provider) error {
	have, want, err := provider.GetVersions(ctx)
	if err != nil {
		return explain("reading the version of the schema", err)
	}
	return fits(have, have, want)
}

// fits says whether a program that knows the schema up to version newest can use version have, of at least version least.
func fits(have, least, newest int64) error {
	switch {
	case have > newest:
		return fmt.Errorf("%w: it has version %d and this program knows up to %d: run a newer program", ErrSchema, have, newest)
	case have < least:
		return fmt.Errorf("%w: it has version %d and this program needs %d: run mcp-server migrate up", ErrSchema, have, least)
	}
	return nil
}

func (s *Store) checkSchema(ctx context.Context) error {
	var have int64
	err := s.pool.QueryRow(ctx, "SELECT coalesce(max(version_id), 0) FROM "+versionTable+" WHERE is_applied").Scan(&have)
	if err != nil {
		return explain("reading the version of the schema", err)
	}
	newest, err := newestMigration()
	if err != nil {
		return err
	}
	return fits(have, newest, newest)
}

// newestMigration counts: the files are numbered from 1 without gaps, which a test checks.
func newestMigration() (int64, error) {
	files, err := fs.Glob(migrationFiles, "migrations/*.sql")
	return int64(len(files)), err
}
