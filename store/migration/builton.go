package migration

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/pgmesh/pgmesh/store"
)

// BuiltOnError says that a way down was not taken, because others have built on what goes.
type BuiltOnError struct {
	Version int64
	BuiltOn []string
}

func (e *BuiltOnError) Error() string {
	return fmt.Sprintf("going down to version %d: %s%s", e.Version, store.DropFirst, strings.Join(e.BuiltOn, "; "))
}

// builtOn says of what others built on what it depends of what goes below a version. Postgres would refuse to
// drop that, with some of the steps made.
func builtOn(ctx context.Context, conn *pgx.Conn, status Status, version int64) ([]string, error) {
	var tables, columns []string
	for _, m := range status.Migrations {
		if m.Version <= version {
			continue
		}
		t, c, err := droppedBy(m)
		if err != nil {
			return nil, err
		}
		tables, columns = append(tables, t...), append(columns, c...)
	}
	rows, err := conn.Query(ctx, sql.BuiltOn, tables, columns)
	if err != nil {
		return nil, err
	}
	found, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if version == 0 {
		for _, table := range added(status.Changed, "table") {
			found = append(found, table+" depends on schema mesh")
		}
	}
	return found, err
}

// addedToCode returns what goes with functions and views, which are dropped with all that is like them.
func addedToCode(changed []store.Difference) []string {
	return added(changed, "view", "function", "trigger", "policy")
}

// added names what others have added to the schemas, of some kinds.
func added(changed []store.Difference, kinds ...string) (names []string) {
	for _, d := range changed {
		if slices.Contains(kinds, d.Kind) && d.Difference == "is not of the mesh: somebody has added it" {
			names = append(names, d.Kind+" "+d.Name)
		}
	}
	return names
}
