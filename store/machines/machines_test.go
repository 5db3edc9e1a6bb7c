package machines_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/internal/testbench/storetest"
	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/machines"
	"github.com/pgmesh/pgmesh/store/migration"
)

// registrar is a session that registers machines of the group a/web.
type registrar struct {
	t        *testing.T
	machines *machines.Store
	keeper   machines.Keeper
	session  int64
	number   int64
}

func newRegistrar(t *testing.T, db *store.Store) *registrar {
	t.Helper()
	r := &registrar{t: t, machines: machines.New(db), keeper: machines.Keeper{7}}
	var err error
	r.session, err = r.machines.OpenSession(t.Context(), r.keeper, "mcp", "eu")
	require.NoError(t, err)
	return r
}

func (r *registrar) tell(state machines.State, machine, address string) machines.Outcome {
	r.t.Helper()
	r.number++
	outcomes, _, err := r.machines.Register(r.t.Context(), r.keeper, r.session, r.number, []machines.Change{{
		Namespace: "a", Group: "web", Machine: machine, ServiceAccount: "default", Since: 1, Address: address, Health: "healthy", State: state,
	}}, "eu")
	require.NoError(r.t, err)
	return outcomes[0]
}

const webGroup = `INSERT INTO mesh.workload_groups (namespace, name, template) VALUES ('a', 'web', '{"ports": {"http": 80}}')`

// A schema that was one of an older program meanwhile has forgotten the machines. Those that are
// there are told again, and keep their entries; the others' belong to nobody.
func TestMachinesThroughAnOlderSchema(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	s, db := storetest.OpenURL(t, url), storetest.Connect(t, url)
	db.Exec(webGroup)
	r := newRegistrar(t, s)
	r.tell(machines.Here, "m1", "10.0.0.1")
	r.tell(machines.Here, "m2", "10.0.0.2")
	require.NoError(t, migration.Down(t.Context(), url, 22, storetest.Quietly))
	require.NoError(t, migration.Up(t.Context(), url))
	_, _, err := r.machines.Register(t.Context(), r.keeper, r.session, 3, nil, "")
	require.ErrorIs(t, err, machines.ErrSessionEnded)

	before := db.Newest()
	require.Equal(t, "web-10.0.0.1", newRegistrar(t, s).tell(machines.Here, "m1", "10.0.0.1").Entry)
	require.Equal(t, before, db.Newest(), "it is as it was")
	removed, err := r.machines.RemoveOrphaned(t.Context(), "mcp")
	require.NoError(t, err)
	require.Equal(t, int64(1), removed)
	require.Equal(t, []string{"web-10.0.0.1"}, storetest.Collect[string](db, "SELECT name FROM mesh.workload_entries"))
	removed, err = r.machines.RemoveOrphaned(t.Context(), "mcp")
	require.NoError(t, err)
	require.Zero(t, removed)
}

// What machines there are is for who may read the namespace, and who may write it takes them out.
// Nobody but servers registers any.
func TestMachinesAreOfTheirNamespace(t *testing.T) {
	t.Parallel()
	y := storetest.NewTenancy(t)
	y.Owner.Exec(webGroup)
	r := newRegistrar(t, storetest.OpenURL(t, y.URL))
	r.tell(machines.Here, "m1", "10.0.0.1")
	r.tell(machines.Here, "m2", "10.0.0.2")
	r.tell(machines.Gone, "m2", "")
	writer, reader, stranger := y.Tenant("writer"), y.Tenant("reader"), y.Tenant("stranger")
	y.Grant(reader.Conn.Config().User, "b", "read")
	y.Owner.Exec("SELECT mesh.revoke_namespace($1, 'a')", reader.Conn.Config().User)
	y.Grant(reader.Conn.Config().User, "a", "read")
	y.Owner.Exec("SELECT mesh.revoke_namespace($1, 'a')", stranger.Conn.Config().User)
	y.Grant(stranger.Conn.Config().User, "b", "write")
	const listed = "SELECT machine || ' ' || state FROM mesh.registered_machines ORDER BY 1"
	for _, s := range []storetest.Session{y.Owner, writer, reader} {
		require.Equal(t, []string{"m1 here", "m2 gone"}, storetest.Collect[string](s, listed))
	}
	require.Empty(t, storetest.Collect[string](stranger, listed))
	for _, s := range []storetest.Session{reader, stranger} {
		require.Equal(t, "42501", s.Refused("SELECT mesh.remove_machine('a', 'm2')").Code)
		require.Equal(t, "42501", s.Refused("SELECT mesh_internal.open_workload_session(gen_random_uuid(), 'x', 'x')").Code)
		require.Equal(t, "42501", s.Refused("TABLE mesh_internal.workload_instances").Code)
	}
	require.Equal(t, "55006", writer.Refused("SELECT mesh.remove_machine('a', 'm1')").Code)
	require.Equal(t, int64(1), storetest.Value[int64](writer, "SELECT mesh.remove_machine('a', 'm2')"))
	require.Equal(t, []string{"m1 here"}, storetest.Collect[string](writer, listed))
	writer.Exec("UPDATE mesh.workload_groups SET template = '{\"ports\": {\"http\": 81}}'")
	require.Equal(t, "81", storetest.Value[string](writer, "SELECT spec #>> '{ports,http}' FROM mesh.workload_entries"), "who changes the group changes what follows from it")
	require.Equal(t, writer.Conn.Config().User, storetest.Value[string](y.Owner, "SELECT author FROM mesh.revisions ORDER BY revision DESC LIMIT 1"))
}
