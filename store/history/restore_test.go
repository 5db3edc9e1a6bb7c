package history_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/storetest"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/history"
	"github.com/pgmesh/pgmesh/store/resources"
)

func TestRestoreInGo(t *testing.T) {
	t.Parallel()
	s, url := open(t)
	db := storetest.Connect(t, url)
	db.Put("x", "a")
	db.Put("y", "a")
	db.Put("x", "b")
	db.Exec("DELETE FROM mesh.resources WHERE name = 'y'")
	db.Put("z", "b")

	planned, err := s.Restore(t.Context(), history.Restoring{To: store.When(2), Apply: resources.Apply{DryRun: true}})
	require.NoError(t, err)
	require.Zero(t, planned.Revision)
	done, err := s.Restore(t.Context(), history.Restoring{To: store.When(2), Apply: resources.Apply{Author: "ada", Confirm: time.Hour}})
	require.NoError(t, err)
	require.Equal(t, planned.Keys, done.Keys)
	require.Equal(t, planned.Outcomes, done.Outcomes)
	require.Equal(t, []kinds.Key{storetest.Key(t, "x"), storetest.Key(t, "y"), storetest.Key(t, "z")}, done.Keys)
	require.Equal(t, []resources.Outcome{resources.Configured, resources.Created, resources.Deleted}, done.Outcomes)
	require.Equal(t, store.Revision(6), done.Revision)
	require.WithinDuration(t, time.Now().Add(time.Hour), done.Deadline, time.Minute)
	require.Equal(t, "ada: restore to revision 2", storetest.Value[string](db, "SELECT author || ': ' || message FROM mesh.revisions WHERE revision = 6"))

	again, err := s.Restore(t.Context(), history.Restoring{To: store.When(2), Apply: resources.Apply{Confirm: time.Hour}})
	require.NoError(t, err, "what changes nothing needs no confirmation")
	require.Equal(t, resources.Called{Applied: resources.Applied{Outcomes: []resources.Outcome{}}}, again)
	_, err = s.Restore(t.Context(), history.Restoring{To: store.When(99)})
	require.ErrorIs(t, err, store.ErrNoHistory)
}

// The database chooses by the name of a kind, and Gateway is the name of two.
func TestRestoreLeavesNamesakesAlone(t *testing.T) {
	t.Parallel()
	s, url := open(t)
	db := storetest.Connect(t, url)
	db.Exec(`INSERT INTO mesh.k8s_gateways (name, gateway_class_name, listeners) VALUES ('x', 'x', '[{"name": "a", "port": 80, "protocol": "HTTP"}]')`)
	db.Exec(`INSERT INTO mesh.gateways (name, servers) VALUES ('y', '[{"port": {"number": 80, "name": "http", "protocol": "HTTP"}, "hosts": ["a.example"]}]')`)
	gateway, err := kinds.ByName("gateway")
	require.NoError(t, err)

	_, err = s.Restore(t.Context(), history.Restoring{To: store.When(0), Selection: resources.Selection{Kinds: []*kinds.Kind{gateway}}})
	require.ErrorContains(t, err, "would also restore Gateway.gateway.networking.k8s.io default/x")
	require.Equal(t, int64(2), storetest.Value[int64](db, "SELECT count(*) FROM mesh.resources"))
	done, err := s.Restore(t.Context(), history.Restoring{To: store.When(0), Selection: resources.Selection{Kinds: []*kinds.Kind{gateway}, Names: []string{"y"}}})
	require.NoError(t, err)
	require.Len(t, done.Keys, 1)
}

func TestRevertInGo(t *testing.T) {
	t.Parallel()
	s, url := open(t)
	db := storetest.Connect(t, url)
	db.Exec("BEGIN")
	db.Put("x", "a")
	db.Put("y", "a")
	db.Exec("COMMIT")
	db.Put("y", "b")

	_, _, err := s.Revert(t.Context(), 1, true, resources.Apply{Message: "no"})
	changed, is := errors.AsType[*resources.ChangedError](err)
	require.True(t, is, err)
	require.Equal(t, store.Revision(2), changed.Revision)
	require.Equal(t, storetest.Key(t, "y"), changed.Expected.Key)
	require.False(t, changed.Absent)

	applied, outcomes, err := s.Revert(t.Context(), 1, false, resources.Apply{Message: "no"})

	require.NoError(t, err)
	require.Equal(t, store.Revision(3), applied.Revision)
	require.Equal(t, []history.RevertOutcome{{storetest.Key(t, "x"), "reverted", 0}, {storetest.Key(t, "y"), "conflict", 2}}, outcomes)
}

// What a program does not know is told by its name.
func TestRevertInGoTellsUnknownKinds(t *testing.T) {
	t.Parallel()
	s, url := open(t)
	db := storetest.Connect(t, url)
	db.Put("x", "a")
	db.Exec(`SET session_replication_role = replica; INSERT INTO mesh.resources (api_group, kind, name, spec) VALUES ('x.io', 'Odd', 'o', '{}');
		RESET session_replication_role; SELECT mesh.adopt()`)
	db.Exec("DELETE FROM mesh.resources")
	_, _, err := s.Revert(t.Context(), 3, true, resources.Apply{})
	require.ErrorAs(t, err, new(*store.RefusedError))
	require.ErrorContains(t, err, "of Odd default/o")
	require.Equal(t, int64(3), db.Newest())
	_, outcomes, err := s.Revert(t.Context(), 3, false, resources.Apply{})
	require.NoError(t, err)
	odd := kinds.Key{Kind: &kinds.Kind{Group: "x.io", Name: "Odd"}, Namespace: "default", Name: "o"}
	require.Equal(t, []history.RevertOutcome{{odd, history.UnknownKind, 0}, {storetest.Key(t, "x"), "reverted", 0}}, outcomes)
}
