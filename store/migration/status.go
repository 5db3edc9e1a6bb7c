package migration

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/kindtables"
	"github.com/pgmesh/pgmesh/store/migrations"
	code "github.com/pgmesh/pgmesh/store/sql"
)

// Status compares a database's schema with what this program needs.
type Status struct {
	Migrations []Step
	Newest     int64 // the database's version, which may be a newer program's
	Installed
	Changed []store.Difference // what somebody else has changed, as far as the role is told
}

// Step is one step of the schema.
type Step struct {
	Version int64
	Name    string
	Applied time.Time // zero if it is not applied
}

// Installed says which parts of the schema, other than tables, are this program's.
type Installed struct {
	Code     bool // functions, views and triggers
	Registry bool // kinds, types and rules
}

// remade begins the advice of what Up makes anew.
const remade = "run mcp-server migrate up"

// Remakes returns what somebody has changed that Up makes anew, and what it leaves to people.
func (s Status) Remakes() (anew, left []store.Difference) {
	for _, d := range s.Changed {
		if strings.HasPrefix(d.Advice, remade) {
			anew = append(anew, d)
		} else {
			left = append(left, d)
		}
	}
	return anew, left
}

// Fits reports whether the schema is that of this program, as far as its versions tell.
func (s Status) Fits() bool { return s.known() == s.Newest && s.Code && s.Registry }

// TooNew reports whether a newer program migrated the database, which this one then leaves alone.
func (s Status) TooNew() bool { return s.Newest > s.known() }

func (s Status) known() (version int64) {
	for _, m := range s.Migrations {
		version = m.Version
	}
	return version
}

// ReadStatus compares a database with this program. It changes nothing.
func ReadStatus(ctx context.Context, url string) (Status, error) {
	conn, err := connectToMigrate(ctx, url, func(string) {})
	if err != nil {
		return Status{}, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	s, err := readStatus(ctx, conn)
	return s, explain("reading the version of the schema", err)
}

func readStatus(ctx context.Context, conn *pgx.Conn) (Status, error) {
	s, err := knownMigrations()
	if err != nil {
		return s, err
	}
	if err := refuseBroken(ctx, conn); err != nil {
		return s, err
	}
	var exists bool
	if err := conn.QueryRow(ctx, sql.HasVersions).Scan(&exists); err != nil || !exists {
		return s, err
	}
	applied, err := appliedIn(ctx, conn)
	for version := range applied {
		s.Newest = max(s.Newest, version)
	}
	for i := range s.Migrations {
		s.Migrations[i].Applied = applied[s.Migrations[i].Version]
	}
	if err == nil && s.Newest > 0 {
		s.Installed, err = installedIn(ctx, conn)
	}
	if err == nil {
		s.Changed, err = changedIn(ctx, conn, s.Newest)
	}
	return s, err
}

// comparableSince is the version from which a schema can be compared with what a migration has made.
const comparableSince = 49

// changedIn lists what others have changed. Older schemas do not know, and only the owner and servers are
// told.
func changedIn(ctx context.Context, conn *pgx.Conn, version int64) ([]store.Difference, error) {
	var can bool
	if err := conn.QueryRow(ctx, sql.CanCheck).Scan(&can); err != nil {
		return nil, err
	}
	switch {
	case !can && version >= comparableSince:
		return []store.Difference{{Kind: "function", Name: "mesh.check_installation()", Difference: "is missing, so nothing can be compared", Advice: remade + ", which makes it anew"}}, nil
	case !can:
		return nil, nil
	}
	rows, err := conn.Query(ctx, sql.Differences)
	if err != nil {
		return nil, err
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[store.Difference])
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Code == codeNoPrivilege {
		return nil, nil
	}
	return list, err
}

const codeNoPrivilege = "42501"

// knownMigrations lists the migration files, in order.
func knownMigrations() (s Status, err error) {
	names, err := migrations.Names()
	if err != nil {
		return s, err
	}
	for _, name := range names {
		number, _, _ := strings.Cut(name, "_")
		version, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			return s, fmt.Errorf("reading the name of the migration %s: %w", name, err)
		}
		s.Migrations = append(s.Migrations, Step{Version: version, Name: name})
	}
	return s, nil
}

// installedIn compares digests. A schema before version 39 has neither code nor kinds of this
// program.
func installedIn(ctx context.Context, conn *pgx.Conn) (i Installed, err error) {
	script, err := code.Script()
	if err != nil {
		return i, err
	}
	registry, err := kindtables.Known().Digest()
	if err != nil {
		return i, err
	}
	var internal bool
	if err := conn.QueryRow(ctx, sql.HasInternal).Scan(&internal); err != nil || !internal {
		return i, err
	}
	err = conn.QueryRow(ctx, sql.Installed, digestOf(script), registry).Scan(&i.Code, &i.Registry)
	return i, err
}
