package migration

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgmesh/pgmesh/store"
)

// codesMissing say that there is no such table, column, type or function, or no such schema.
var codesMissing = []string{"42P01", "42703", "42704", "42883", "3F000"}

// explain is [store.Explain], which advises to migrate if something of the mesh is missing. What a migration
// misses itself, an earlier one has made, and none makes again.
func explain(doing string, err error) error {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || !slices.Contains(codesMissing, pg.Code) || !strings.Contains(pg.Message, "mesh") {
		return store.Explain(doing, err)
	}
	return fmt.Errorf("%s: %w (somebody has dropped, renamed or moved it: put it back, restore it from a backup, or make it again as the migration did, which mcp-server migrate sql prints)", doing, err)
}
