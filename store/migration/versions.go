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
)

// VersionsLostError says that the table of versions lacks steps that the schema has made.
type VersionsLostError struct {
	Version int64 // that the schema has
	Lacks   []int64
}

func (e *VersionsLostError) Error() string {
	numbers := make([]string, len(e.Lacks))
	for i, version := range e.Lacks {
		numbers[i] = strconv.FormatInt(version, 10)
	}
	return fmt.Sprintf("the schema has version %d, and %s lacks rows of it: somebody has deleted them. All else is there. Run in psql: "+
		"INSERT INTO %[2]s (version_id, is_applied) SELECT v, true FROM unnest('{%s}'::bigint[]) v", e.Version, versionTable, strings.Join(numbers, ","))
}

// refuseBroken returns an error if the schema is not whole.
func refuseBroken(ctx context.Context, conn *pgx.Conn) error {
	var versions bool
	if err := conn.QueryRow(ctx, sql.HasVersions).Scan(&versions); err != nil {
		return err
	}
	if versions {
		if err := refuseLostVersions(ctx, conn); err != nil {
			return err
		}
	}
	return refuseHalf(ctx, conn, versions)
}

// refuseLostVersions returns a VersionsLostError if steps are not in the table of versions that the last
// migration has noted. Earlier schemas note none, and not all roles are told.
func refuseLostVersions(ctx context.Context, conn *pgx.Conn) error {
	var internal bool
	if err := conn.QueryRow(ctx, sql.HasInternal).Scan(&internal); err != nil || !internal {
		return err
	}
	lost := VersionsLostError{}
	err := conn.QueryRow(ctx, sql.NotedVersion).Scan(&lost.Version)
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Code == codeNoPrivilege {
		return nil
	}
	if err != nil || lost.Version == 0 {
		return err
	}
	applied, err := appliedIn(ctx, conn)
	if err != nil {
		return err
	}
	known, err := knownMigrations()
	if err != nil {
		return err
	}
	for _, step := range append([]Step{{Version: 0}}, known.Migrations...) {
		if _, there := applied[step.Version]; !there && step.Version <= lost.Version {
			lost.Lacks = append(lost.Lacks, step.Version)
		}
	}
	if len(lost.Lacks) > 0 {
		return &lost
	}
	return nil
}

// appliedIn returns when each step was made, by its version.
func appliedIn(ctx context.Context, conn *pgx.Conn) (map[int64]time.Time, error) {
	rows, err := conn.Query(ctx, sql.Versions)
	if err != nil {
		return nil, err
	}
	applied := map[int64]time.Time{}
	var version int64
	var at time.Time
	_, err = pgx.ForEachRow(rows, []any{&version, &at}, func() error {
		applied[version] = at
		return nil
	})
	return applied, err
}
