package migration

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// A mesh is in two schemas, and what one of them had no migration makes again.

// HalfError says that one of the two schemas is missing, or lacks what it had.
type HalfError struct {
	Missing, Left string
	Renamed       string // the name that the missing one has now, as SQL has it; empty if it is nowhere
	Occupied      bool   // whether there is a schema of its name all the same
}

func (e *HalfError) Error() string {
	is := fmt.Sprintf("the schema %s of the mesh is missing, or what it had, and %s is still there: ", e.Missing, e.Left)
	if e.Renamed != "" {
		return is + fmt.Sprintf("somebody has renamed it to %s, where all is that it had. Stop all mcp-servers, and run in psql: %sALTER SCHEMA %s RENAME TO %s", e.Renamed, e.clears(), e.Renamed, e.Missing)
	}
	return is + "somebody has dropped it, and no migration makes again what it had. " +
		"Stop all mcp-servers, " + e.saves() + "and run in psql: DROP SCHEMA IF EXISTS mesh, mesh_internal CASCADE. " +
		"Then restore both schemas from a backup (docs/operators-guide.md#restore); or, to begin anew with an empty mesh, run mcp-server migrate up"
}

// clears makes room for the schema. If others have put something there, Postgres refuses it.
func (e *HalfError) clears() string {
	if e.Occupied {
		return "DROP SCHEMA " + e.Missing + "; "
	}
	return ""
}

// saves says how the resources are kept, if they are there: the backup may be older.
func (e *HalfError) saves() string {
	if e.Left == "mesh" {
		return `save the resources in psql, for the backup may be older (\copy (` + resourcesLeft + `) TO 'resources.csv' CSV; docs/operators-guide.md#restore says how they come back), `
	}
	return ""
}

const resourcesLeft = "SELECT api_group, kind, namespace, name, spec, labels, annotations FROM mesh.resources"

// refuseHalf returns a HalfError if one of the schemas is missing; versions says whether there is a table of versions. Before version 39 there was only one,
// and others may have made an empty one for it.
func refuseHalf(ctx context.Context, conn *pgx.Conn, versions bool) error {
	var internal, needed bool
	question := sql.HalfWithoutVersions
	if versions {
		question = sql.HalfWithVersions
	}
	err := conn.QueryRow(ctx, question).Scan(&internal, &needed)
	if err != nil || internal == needed {
		return err
	}
	half := &HalfError{Missing: "mesh_internal", Left: "mesh"}
	if internal {
		half = &HalfError{Missing: "mesh", Left: "mesh_internal"}
	}
	if err := conn.QueryRow(ctx, sql.RenamedHalf, half.Missing, half.Left).Scan(&half.Renamed, &half.Occupied); err != nil {
		return err
	}
	return half
}
