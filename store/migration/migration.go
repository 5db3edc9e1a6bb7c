// Package migration brings the schema of a database to the version of this program, and back.
package migration

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/migrations"
	"github.com/pgmesh/pgmesh/store/query"
)

//go:embed queries
var files embed.FS

var sql = query.Read[struct {
	SetCodeDigest, SetRegistryDigest, SetDigests, DropCode, BlockWrites, UnblockWrites                     string
	ViewsFit, InstallViews, Recheck, RefreshPrivileges, AdvanceSequences                                   string
	MarkChanges, NoteObjects, CountDiffering                                                               string
	HasSchema, CreateSchema, DropSchema, HasVersions, Versions                                             string
	MayMigrate, CanCheck, Differences                                                                      string
	HasInternal, Installed, EmptySchema, RegainOwnership, ActAsOwner, TableNamed, BuiltOn                  string
	HalfWithVersions, HalfWithoutVersions, RenamedHalf, NotedVersion                                       string
	TryMigrationLock, FreeMigrationLock, MigrationHolders, WaitsBefore, Migrates, CallSession, ScriptsTurn string
	LockEverything, RelationHolders                                                                        string
}](files)

// versionTable is where goose keeps which steps were made.
const versionTable = "mesh.schema_version"

// Up brings the schema to the newest version, and stores this program's kinds in it. The role needs
// the right to create a schema in the database, and no more; one that only runs servers is refused unless there
// is nothing to do. Several programs may call it at once,
// and others may use the mesh meanwhile: they wait for short moments.
func Up(ctx context.Context, url string) error {
	return UpTelling(ctx, url, func(string) {})
}

// UpTelling is Up that reports, a line at a time, what it does and whom it waits for.
func UpTelling(ctx context.Context, url string, tell func(string)) error {
	err := up(ctx, url, tell)
	if _, lesser := errors.AsType[*NotOwnerError](err); lesser {
		if status, unread := ReadStatus(ctx, url); unread == nil && status.Fits() {
			return nil
		}
	}
	return err
}

func up(ctx context.Context, url string, tell func(string)) error {
	return withMigrationLock(ctx, url, tell, func(ctx context.Context, conn *pgx.Conn, provider *goose.Provider) error {
		if err := refuseNewer(ctx, provider); err != nil {
			return err
		}
		if _, err := conn.Exec(ctx, sql.MarkChanges); err != nil {
			return explain("looking what others have changed in the schema", err)
		}
		for _, step := range []func(context.Context, *pgx.Conn, *goose.Provider, func(string)) error{migrateUp, installCode, installRegistry, installViews, recheckResources} {
			if err := retryLocked(ctx, conn, tell, func() error { return step(ctx, conn, provider, tell) }); err != nil {
				return pointToChanges(ctx, conn, err)
			}
		}
		if _, err := conn.Exec(ctx, sql.NoteObjects); err != nil {
			return explain("noting what the schema has", err)
		}
		if _, err := conn.Exec(ctx, sql.RefreshPrivileges); err != nil {
			return explain("granting to roles what is new in the schema", err)
		}
		return advanceSequences(ctx, conn, tell)
	})
}

// pointToChanges says with the error of a migration that others have changed the schema, which is
// most likely why it failed.
func pointToChanges(ctx context.Context, conn *pgx.Conn, err error) error {
	var differing int
	if conn.QueryRow(ctx, sql.CountDiffering).Scan(&differing) != nil || differing == 0 {
		return err
	}
	return fmt.Errorf("%w\nobjects of the schema that somebody has changed: %d. Look at them first: SELECT * FROM mesh.check_installation()", err, differing)
}

// advanceSequences is for a copy of a mesh: logical replication and dumps of single tables do not
// copy sequences.
func advanceSequences(ctx context.Context, conn *pgx.Conn, tell func(string)) error {
	var behind int
	if err := conn.QueryRow(ctx, sql.AdvanceSequences).Scan(&behind); err != nil {
		return explain("looking whether sequences are behind their tables", err)
	}
	if behind > 0 {
		tell(fmt.Sprintf("had %d sequences go on after what their tables have, as a copy needs it", behind))
	}
	return nil
}

func migrateUp(ctx context.Context, _ *pgx.Conn, provider *goose.Provider, tell func(string)) error {
	for {
		done, err := provider.UpByOne(ctx)
		if errors.Is(err, goose.ErrNoNextVersion) {
			return nil
		}
		if err != nil {
			return explain("migrating the schema", err)
		}
		tell(fmt.Sprintf("migrated to version %d (%s) in %s", done.Source.Version, done.Source.Path, done.Duration.Round(time.Millisecond)))
	}
}

func installCode(ctx context.Context, conn *pgx.Conn, _ *goose.Provider, tell func(string)) error {
	before, err := installedIn(ctx, conn)
	if err != nil || before.Code {
		return explain("reading which functions the schema has", err)
	}
	if err := syncCode(ctx, conn); err != nil {
		return err
	}
	tell("installed the functions, views and triggers of this program")
	return nil
}

func installRegistry(ctx context.Context, conn *pgx.Conn, _ *goose.Provider, tell func(string)) error {
	before, err := installedIn(ctx, conn)
	if err != nil {
		return explain("reading which kinds the schema knows", err)
	}
	if err := syncRegistry(ctx, conn); err != nil {
		return err
	}
	if !before.Registry {
		tell("wrote the kinds and rules of this program")
	}
	return nil
}

func migrateDown(ctx context.Context, conn *pgx.Conn, provider *goose.Provider, version int64, tell func(string)) error {
	if err := dropCode(ctx, conn); err != nil {
		return err
	}
	done, err := provider.DownTo(ctx, version)
	if err != nil {
		return explain("migrating the schema down", err)
	}
	for _, step := range done {
		tell(fmt.Sprintf("took back version %d (%s)", step.Source.Version, step.Source.Path))
	}
	if version > 0 {
		return nil
	}
	_, err = conn.Exec(ctx, sql.UnblockWrites+"\n"+sql.DropSchema)
	return explain("removing the schema", err)
}

// withMigrationLock runs do while other programs that migrate the same database wait.
func withMigrationLock(ctx context.Context, url string, tell func(string), do func(context.Context, *pgx.Conn, *goose.Provider) error) error {
	conn, err := connectToMigrate(ctx, url, tell)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if err := requireOwner(ctx, conn); err != nil {
		return err
	}
	defer endTurn(ctx, conn)
	if err := lockSchema(ctx, conn, tell); err != nil {
		return explain("preparing the schema mesh", err)
	}
	db := stdlib.OpenDB(*conn.Config(), stdlib.OptionAfterConnect(func(ctx context.Context, conn *pgx.Conn) error {
		if _, err := conn.Exec(ctx, "SET lock_timeout = "+store.Milliseconds(maxLockWait)+"; "+store.NoCompiling); err != nil {
			return err
		}
		return actAsOwner(ctx, conn)
	}))
	defer db.Close()
	provider, err := goose.NewProvider(goose.DialectPostgres, db, migrations.Files, goose.WithTableName(versionTable), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return fmt.Errorf("reading the migrations: %w", err)
	}
	return do(ctx, conn, provider)
}

// NotOwnerError says that a role cannot migrate a schema, and which can.
type NotOwnerError struct{ Role, Owner string }

func (e *NotOwnerError) Error() string {
	return fmt.Sprintf("the role %s cannot migrate the schema mesh, which belongs to %s: run mcp-server migrate up with a database URL of the role %[2]s, or of a member of it, "+
		"and mcp-server run without --migrate. What mesh.grant_server gives is for running", e.Role, e.Owner)
}

// requireOwner refuses a role that could not do anything, before it has begun.
func requireOwner(ctx context.Context, conn *pgx.Conn) error {
	var e NotOwnerError
	var may bool
	if err := conn.QueryRow(ctx, sql.MayMigrate).Scan(&e.Owner, &e.Role, &may); err != nil {
		return explain("reading whose the schema is", err)
	}
	if !may {
		return &e
	}
	return nil
}

func connectToMigrate(ctx context.Context, url string, tell func(string)) (*pgx.Conn, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("reading the database URL: %w", err)
	}
	config.RuntimeParams["application_name"] = waits
	config.OnNotice = reportNotices(tell)
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, explain("connecting to the database", err)
	}
	_, err = conn.Exec(ctx, store.NoCompiling)
	return conn, explain("connecting to the database", err)
}

// lockSchema creates the schema if needed, with a lock that lasts as long as the connection, and gives its
// owner back what it has lost of it. IF NOT EXISTS would not do: Postgres then demands the right to create
// a schema even if it exists.
func lockSchema(ctx context.Context, conn *pgx.Conn, tell func(string)) error {
	if err := takeTurn(ctx, conn, tell); err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, sql.RegainOwnership); err != nil {
		return err
	}
	if err := actAsOwner(ctx, conn); err != nil {
		return err
	}
	if err := refuseBroken(ctx, conn); err != nil {
		return err
	}
	var exists bool
	if err := conn.QueryRow(ctx, sql.HasSchema).Scan(&exists); err != nil || exists {
		return err
	}
	_, err := conn.Exec(ctx, sql.CreateSchema)
	return err
}

// actAsOwner has a member of the owner of the schema make everything as that.
func actAsOwner(ctx context.Context, conn *pgx.Conn) error {
	_, err := conn.Exec(ctx, sql.ActAsOwner, false)
	return explain("acting as the owner of the schema mesh", err)
}

// refuseNewer returns an error if a newer program has migrated the schema.
func refuseNewer(ctx context.Context, provider *goose.Provider) error {
	have, want, err := provider.GetVersions(ctx)
	if err != nil {
		return explain("reading the version of the schema", err)
	}
	return store.Fits(have, have, want)
}
