package store_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
)

// oddities has resources x, o and p, of which o and p are of a kind that nobody knows.
func oddities(t *testing.T) session {
	t.Helper()
	db := connect(t, pgtest.New(t))
	db.Put("x", "a")
	db.Exec(`SET session_replication_role = replica;
		INSERT INTO mesh.resources (api_group, kind, name, spec) VALUES ('x.io', 'Odd', 'o', '{}'), ('x.io', 'Odd', 'p', '{}');
		RESET session_replication_role; SELECT mesh.adopt()`)
	return db
}

// What cannot be made again does not keep the rest from going back.
func TestARevertLeavesOutWhatIsOfAnUnknownKind(t *testing.T) {
	t.Parallel()
	db := oddities(t)
	db.Exec("UPDATE mesh.resources SET labels = '{\"a\": \"b\"}'")
	require.Equal(t, []string{"reverted Odd o", "reverted Odd p", "reverted VirtualService x"}, collect[string](db, "SELECT concat_ws(' ', outcome, kind, name) FROM mesh.revert(3)"), "it is there yet")
	db.Exec("DELETE FROM mesh.resources")
	err := db.Refused("SELECT mesh.revert(5, whole => true)")
	require.Equal(t, "MS006", err.Code)
	require.Equal(t, "revision 5 cannot be taken back whole: Odd default/o is of a kind of x.io that no program knows any more, Odd default/p is of a kind of x.io that no program knows any more", err.Message)
	require.Equal(t, []string{"unknown_kind Odd o", "unknown_kind Odd p", "reverted VirtualService x"}, collect[string](db, "SELECT concat_ws(' ', outcome, kind, name, changed_by) FROM mesh.revert(5)"))
	require.Equal(t, map[string]string{"x": "a"}, db.hosts())

	// So it is with a change that nobody confirmed.
	db = oddities(t)
	db.Exec("BEGIN; SELECT mesh.commit_confirmed('1 hour'); DELETE FROM mesh.resources; COMMIT; UPDATE mesh_internal.deadlines SET deadline = now()")
	require.Equal(t, "3 conflict 4", value[string](db, "SELECT concat_ws(' ', revision, state, reverted_by) FROM mesh.revert_overdue()"))
	require.Equal(t, map[string]string{"x": "a"}, db.hosts())
	require.Equal(t, []string{"Odd o: no program knows its kind any more", "Odd p: no program knows its kind any more"}, collect[string](db, "SELECT format('%s %s: %s', kind, name, reason) FROM mesh.conflicts ORDER BY 1"))
	db.Exec("SET session_replication_role = replica; INSERT INTO mesh.resources (api_group, kind, name, spec) VALUES ('x.io', 'Odd', 'o', '{}'); RESET session_replication_role; SELECT mesh.adopt()")
	require.Equal(t, []string{"p"}, collect[string](db, "SELECT name FROM mesh.conflicts"), "a conflict is over when somebody has seen to it")
}

// All or nothing goes back to a revision, and of what cannot the error says how to leave it out.
func TestARestoreNamesWhatIsOfAnUnknownKind(t *testing.T) {
	t.Parallel()
	db := oddities(t)
	db.Exec("DELETE FROM mesh.resources")
	err := db.Refused("SELECT mesh.restore(2)")
	require.Equal(t, "MS002", err.Code)
	require.Equal(t, "Odd default/o: no program knows the kind Odd of x.io any more, so that it cannot be written; and so it is with 1 more", err.Message)
	require.Equal(t, "name the kinds that are wanted (mcp-client restore --kind; in SQL, kinds => ARRAY(SELECT kind FROM mesh.kinds) has all that are known)", err.Hint)
	require.JSONEq(t, `[{"kind": "Odd", "namespace": "default", "name": "o", "hint": "name the kinds that are wanted (mcp-client restore --kind; in SQL, kinds => ARRAY(SELECT kind FROM mesh.kinds) has all that are known)",
		"reason": "no program knows the kind Odd of x.io any more, so that it cannot be written; and so it is with 1 more"}]`, err.Detail)
	require.Empty(t, db.hosts())
	require.Equal(t, []string{"create x"}, collect[string](db, "SELECT concat_ws(' ', operation, name) FROM mesh.restore(2, kinds => ARRAY(SELECT kind FROM mesh.kinds))"))
	require.Equal(t, []string{"delete x"}, collect[string](db, "SELECT concat_ws(' ', operation, name) FROM mesh.restore(0)"), "what is gone anyway is in nobody's way")
}
