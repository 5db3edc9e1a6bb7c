package registry_test

import (
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	machinev1 "github.com/pgmesh/pgmesh/proto/pgmesh/machine/v1"
)

func (b *bundle) spec(entry string) string {
	b.t.Helper()
	return one[string](b, "SELECT spec::text FROM mesh.resources WHERE kind = 'WorkloadEntry' AND name = $1", entry)
}

// A transaction that changes a group also renders the entries of its machines, in the same
// revision.
func TestEntriesFollowTheirGroup(t *testing.T) {
	t.Parallel()
	b := begin(t)
	d := b.serve(patient).discovery("eu")
	_, err := d.tell(here("m1", "10.0.0.1", 1), here("m2", "10.0.0.2", 1, func(c *machinev1.Change) { c.Network = "b" }))
	require.NoError(t, err)
	before := b.newest()
	b.group("web", `{"metadata": {"labels": {"app": "web", "tier": "front"}, "annotations": {"owner": "ada"}},
		"template": {"serviceAccount": "web", "network": "a", "locality": "eu", "weight": 3, "labels": {"tier": "back"}, "ports": {"http": 9090}}}`)
	require.Equal(t, before+1, b.newest())
	require.Equal(t, []string{"web-10.0.0.1-a", "web-10.0.0.2-b"}, b.entries(), "one has another name, now that its network is known")
	require.JSONEq(t, `{"address": "10.0.0.1", "network": "a", "locality": "eu", "weight": 3, "serviceAccount": "web", "ports": {"http": 9090}, "labels": {"app": "web", "tier": "back"}}`, b.spec("web-10.0.0.1-a"))
	require.Equal(t, "ada", one[string](b, "SELECT annotations ->> 'owner' FROM mesh.resources WHERE name = 'web-10.0.0.2-b'"))

	b.exec("UPDATE mesh.workload_groups SET template = template || '{\"serviceAccount\": \"cart\"}'")
	require.Empty(t, b.entries(), "they are machines of another service account")
	b.group("web", web)
	require.Equal(t, []string{"web-10.0.0.1", "web-10.0.0.2-b"}, b.entries())
	b.exec("DELETE FROM mesh.workload_groups")
	require.Empty(t, b.entries())
	require.Contains(t, d.told(here("m1", "10.0.0.1", 1)).GetRefused(), "there is no WorkloadGroup shop/web")
	b.group("web", web)
	require.Equal(t, []string{"web-10.0.0.1", "web-10.0.0.2-b"}, b.entries(), "they come back with it")

	b.exec("BEGIN; DELETE FROM mesh.workload_groups")
	b.group("web", `{"template": {"serviceAccount": "web"}}`)
	b.exec("COMMIT")
	require.JSONEq(t, `{"address": "10.0.0.1", "serviceAccount": "web"}`, b.spec("web-10.0.0.1"))
	b.exec("BEGIN; SET CONSTRAINTS ALL IMMEDIATE")
	b.group("web", web)
	b.exec("COMMIT")
	require.JSONEq(t, `{"address": "10.0.0.1", "serviceAccount": "web", "ports": {"http": 8080}, "labels": {"app": "web"}}`, b.spec("web-10.0.0.1"))
	before = b.newest()
	b.exec("BEGIN")
	b.group("web", `{"template": {"serviceAccount": "web"}}`)
	b.exec("ROLLBACK")
	require.Equal(t, before, b.newest())
}

// notices runs a statement, and returns the notices of the database.
func (b *bundle) notices(sql string) []string {
	b.t.Helper()
	config := b.conn.Config().Copy()
	var said []string
	config.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) { said = append(said, n.Message+" ("+n.Hint+")") }
	other, err := connectTo(b, config)
	require.NoError(b.t, err)
	_, err = other.Exec(b.t.Context(), sql)
	require.NoError(b.t, err, sql)
	return said
}

// A change that people make to a machine's entry is undone in the same transaction, with a notice.
func TestEntriesAreTheMachines(t *testing.T) {
	t.Parallel()
	b := begin(t)
	d := b.serve(patient).discovery("eu")
	_, err := d.tell(here("m1", "10.0.0.1", 1), here("m2", "10.0.0.2", 1))
	require.NoError(t, err)
	want, before := b.spec("web-10.0.0.1"), b.newest()
	const putBack = "WorkloadEntry shop/web-10.0.0.1: it is of the machine m1, and was put back as that and the WorkloadGroup web have it " +
		"(change the WorkloadGroup web, or the configuration of the agent; mcp-client machines remove takes out a machine that is gone)"
	for _, edit := range []string{
		"DELETE FROM mesh.workload_entries WHERE name = 'web-10.0.0.1'",
		"UPDATE mesh.workload_entries SET address = '10.9.9.9' WHERE name = 'web-10.0.0.1'",
		"UPDATE mesh.workload_entries SET annotations = '{}' WHERE name = 'web-10.0.0.1'",
		"UPDATE mesh.workload_entries SET labels = '{\"app\": \"x\"}' WHERE name = 'web-10.0.0.1'",
		"UPDATE mesh.workload_entries SET name = 'mine' WHERE name = 'web-10.0.0.1'",
		"BEGIN; DELETE FROM mesh.workload_entries WHERE name = 'web-10.0.0.1'; INSERT INTO mesh.workload_entries (namespace, name, address) VALUES ('shop', 'web-10.0.0.1', '10.9.9.9'); COMMIT",
	} {
		require.Contains(t, b.notices(edit), putBack, edit)
		require.Equal(t, []string{"web-10.0.0.1", "web-10.0.0.2"}, b.entries(), edit)
		require.Equal(t, want, b.spec("web-10.0.0.1"), edit)
	}
	require.Equal(t, before, b.newest(), "nothing has become of it")
	require.Equal(t, []string{"WorkloadEntry shop/forged: it says that it is of a machine, and there is no such machine: it was left out " +
		"(leave out the annotation mesh.pgmesh.io/machine if it is to stay; machines register by themselves)"},
		b.notices(`INSERT INTO mesh.workload_entries (namespace, name, address, annotations) VALUES ('shop', 'forged', '10.0.0.9', '{"mesh.pgmesh.io/machine": "m9"}')`))
	require.Empty(t, b.notices(`INSERT INTO mesh.workload_entries (namespace, name, address) VALUES ('shop', 'mine', '10.0.0.9')`))
	require.Equal(t, []string{"mine", "web-10.0.0.1", "web-10.0.0.2"}, b.entries())
}

// Restoring is for what people have written. It does not bring back the machines of that time.
func TestGoingBackLeavesMachinesWhereTheyAre(t *testing.T) {
	t.Parallel()
	b := begin(t)
	d := b.serve(patient).discovery("eu")
	d.told(here("m1", "10.0.0.1", 1))
	then := b.newest()
	d.told(left(here("m1", "10.0.0.1", 1)))
	d.told(here("m2", "10.0.0.2", 1))
	b.group("web", `{"template": {"serviceAccount": "web"}}`)
	require.JSONEq(t, `{"address": "10.0.0.2", "serviceAccount": "web"}`, b.spec("web-10.0.0.2"))
	require.Equal(t, []string{"WorkloadGroup"}, list[string](b, "SELECT kind FROM mesh.restore($1::bigint)", then))
	require.Equal(t, []string{"web-10.0.0.2"}, b.entries())
	require.JSONEq(t, `{"address": "10.0.0.2", "serviceAccount": "web", "ports": {"http": 8080}, "labels": {"app": "web"}}`, b.spec("web-10.0.0.2"))
	require.Equal(t, []string{"reverted"}, list[string](b, "SELECT outcome FROM mesh.revert($1)", b.newest()))
	require.JSONEq(t, `{"address": "10.0.0.2", "serviceAccount": "web"}`, b.spec("web-10.0.0.2"))
}
