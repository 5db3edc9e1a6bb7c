package migration

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// A mesh is in two schemas, and what one of them had no migration makes again.

// HalfError says that one of the two schemas is missing, or lacks what it had.
type HalfError struct{ Missing, Left string }

func (e *HalfError) Error() string {
	return fmt.Sprintf("the schema %s of the mesh is missing, or what it had, and %s is still there: somebody has dropped it, and no migration makes again what it had. "+
		"Stop all mcp-servers, and run in psql: DROP SCHEMA IF EXISTS mesh, mesh_internal CASCADE. "+
		"Then restore both schemas from a backup (docs/operators-guide.md#restore); or, to begin anew with an empty mesh, run mcp-server migrate up", e.Missing, e.Left)
}

// refuseHalf returns a HalfError if one of the schemas is missing. Before version 39 there was only one,
// and others may have made an empty one for it.
func refuseHalf(ctx context.Context, conn *pgx.Conn) error {
	var versions, internal, needed bool
	if err := conn.QueryRow(ctx, sql.HasVersions).Scan(&versions); err != nil {
		return err
	}
	question := sql.HalfWithoutVersions
	if versions {
		question = sql.HalfWithVersions
	}
	err := conn.QueryRow(ctx, question).Scan(&internal, &needed)
	switch {
	case err != nil || internal == needed:
		return err
	case internal:
		return &HalfError{Missing: "mesh", Left: "mesh_internal"}
	}
	return &HalfError{Missing: "mesh_internal", Left: "mesh"}
}
