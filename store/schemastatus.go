package store

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgmesh/pgmesh/store/kindtables"
)

// SchemaStatus compares a database's schema with what this program needs.
type SchemaStatus struct {
	Migrations []Migration
	Newest     int64 // the database's version, which may be a newer program's
	Installed
}

// Migration is one step of the schema.
type Migration struct {
	Version int64
	Name    string
	Applied time.Time // zero if it is not applied
}

// Installed says which parts of the schema, other than tables, are this program's.
type Installed struct {
	Code     bool // functions, views and triggers
	Registry bool // kinds, types and rules
}

// Fits reports whether there is nothing for Migrate to do.
func (s SchemaStatus) Fits() bool { return s.known() == s.Newest && s.Code && s.Registry }

// TooNew reports whether a newer program migrated the database, which this one then leaves alone.
func (s SchemaStatus) TooNew() bool { return s.Newest > s.known() }

func (s SchemaStatus) known() (version int64) {
	for _, m := range s.Migrations {
		version = m.Version
	}
	return version
}

// ReadSchemaStatus compares a database with this program. It changes nothing.
func ReadSchemaStatus(ctx context.Context, url string) (SchemaStatus, error) {
	conn, err := connectToMigrate(ctx, url)
	if err != nil {
		return SchemaStatus{}, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	s, err := readSchemaStatus(ctx, conn)
	return s, Explain("reading the version of the schema", err)
}

func readSchemaStatus(ctx context.Context, conn *pgx.Conn) (SchemaStatus, error) {
	s, err := knownMigrations()
	if err != nil {
		return s, err
	}
	var exists bool
	if err := conn.QueryRow(ctx, "SELECT to_regclass($1) IS NOT NULL", versionTable).Scan(&exists); err != nil || !exists {
		return s, err
	}
	rows, err := conn.Query(ctx, "SELECT version_id, tstamp FROM "+versionTable+" WHERE is_applied AND version_id > 0")
	if err != nil {
		return s, err
	}
	var version int64
	var applied time.Time
	_, err = pgx.ForEachRow(rows, []any{&version, &applied}, func() error {
		s.Newest = max(s.Newest, version)
		for i := range s.Migrations {
			if s.Migrations[i].Version == version {
				s.Migrations[i].Applied = applied
			}
		}
		return nil
	})
	if err == nil && s.Newest > 0 {
		s.Installed, err = installedIn(ctx, conn)
	}
	return s, err
}

// knownMigrations lists the migration files, in order.
func knownMigrations() (s SchemaStatus, err error) {
	files, err := fs.Glob(migrationFiles, "migrations/*.sql")
	if err != nil {
		return s, err
	}
	for _, file := range files {
		name := path.Base(file)
		number, _, _ := strings.Cut(name, "_")
		version, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			return s, fmt.Errorf("reading the name of the migration %s: %w", name, err)
		}
		s.Migrations = append(s.Migrations, Migration{Version: version, Name: name})
	}
	return s, nil
}

// installedIn compares digests. The first versions of the schema have none of code.
func installedIn(ctx context.Context, conn *pgx.Conn) (i Installed, err error) {
	script, err := code()
	if err != nil {
		return i, err
	}
	registry, err := kindtables.Known().Digest()
	if err != nil {
		return i, err
	}
	err = conn.QueryRow(ctx, `SELECT coalesce(bool_or(to_jsonb(i) ->> 'code_digest' = $1
			AND to_jsonb(i) ->> 'views_digest' = concat(to_jsonb(i) ->> 'code_digest', i.registry_digest)), false), coalesce(bool_or(i.registry_digest = $2), false)
		FROM mesh.installation i`, digestOf(script), registry).Scan(&i.Code, &i.Registry)
	return i, err
}
