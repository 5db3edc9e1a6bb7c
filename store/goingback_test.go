package store_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/store"
)

func TestRestoreInGo(t *testing.T) {
	t.Parallel()
	s, url := open(t)
	db := connect(t, url)
	db.Put("x", "a")
	db.Put("y", "a")
	db.Put("x", "b")
	db.Exec("DELETE FROM mesh.resources WHERE name = 'y'")
	db.Put("z", "b")

	planned, err := s.Restore(t.Context(), store.Restoring{To: store.When(2), Apply: store.Apply{DryRun: true}})
	require.NoError(t, err)
	require.Zero(t, planned.Revision)
	done, err := s.Restore(t.Context(), store.Restoring{To: store.When(2), Apply: store.Apply{Author: "ada", Confirm: time.Hour}})
	require.NoError(t, err)
	require.Equal(t, planned.Keys, done.Keys)
	require.Equal(t, planned.Outcomes, done.Outcomes)
	require.Equal(t, []kinds.Key{vs(t, "x"), vs(t, "y"), vs(t, "z")}, done.Keys)
	require.Equal(t, []store.Outcome{store.Configured, store.Created, store.Deleted}, done.Outcomes)
	require.Equal(t, store.Revision(6), done.Revision)
	require.WithinDuration(t, time.Now().Add(time.Hour), done.Deadline, time.Minute)
	require.Equal(t, "ada: restore to revision 2", value[string](db, "SELECT author || ': ' || message FROM mesh.revisions WHERE revision = 6"))

	again, err := s.Restore(t.Context(), store.Restoring{To: store.When(2), Apply: store.Apply{Confirm: time.Hour}})
	require.NoError(t, err, "what changes nothing needs no confirmation")
	require.Equal(t, store.Restored{Applied: store.Applied{Outcomes: []store.Outcome{}}}, again)
	_, err = s.Restore(t.Context(), store.Restoring{To: store.When(99)})
	require.ErrorIs(t, err, store.ErrNoHistory)
}

// The database chooses by the name of a kind, and Gateway is the name of two.
func TestRestoreLeavesNamesakesAlone(t *testing.T) {
	t.Parallel()
	s, url := open(t)
	db := connect(t, url)
	db.Exec(`INSERT INTO mesh.k8s_gateways (name, gateway_class_name, listeners) VALUES ('x', 'x', '[{"name": "a", "port": 80, "protocol": "HTTP"}]')`)
	db.Exec(`INSERT INTO mesh.gateways (name, servers) VALUES ('y', '[{"port": {"number": 80, "name": "http", "protocol": "HTTP"}, "hosts": ["a.example"]}]')`)
	gateway, err := kinds.ByName("gateway")
	require.NoError(t, err)

	_, err = s.Restore(t.Context(), store.Restoring{To: store.When(0), Selection: store.Selection{Kinds: []*kinds.Kind{gateway}}})
	require.ErrorContains(t, err, "would also restore Gateway.gateway.networking.k8s.io default/x")
	require.Equal(t, int64(2), value[int64](db, "SELECT count(*) FROM mesh.resources"))
	done, err := s.Restore(t.Context(), store.Restoring{To: store.When(0), Selection: store.Selection{Kinds: []*kinds.Kind{gateway}, Names: []string{"y"}}})
	require.NoError(t, err)
	require.Len(t, done.Keys, 1)
}

func TestRevertInGo(t *testing.T) {
	t.Parallel()
	s, url := open(t)
	db := connect(t, url)
	db.Exec("BEGIN")
	db.Put("x", "a")
	db.Put("y", "a")
	db.Exec("COMMIT")
	db.Put("y", "b")

	applied, outcomes, err := s.Revert(t.Context(), 1, store.Apply{Message: "no"})

	require.NoError(t, err)
	require.Equal(t, store.Revision(3), applied.Revision)
	require.Equal(t, []store.RevertOutcome{{vs(t, "x"), "reverted", 0}, {vs(t, "y"), "conflict", 2}}, outcomes)
}

func TestAChangeWaitsForItsConfirmation(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	put := func(name string) store.Applied {
		applied, err := s.Apply(t.Context(), store.Apply{
			Author: "ada", Message: "careful", Confirm: 90 * time.Second, Upserts: []store.Upsert{{Key: vs(t, name), Spec: virtualService("a")}},
		})
		require.NoError(t, err)
		return applied
	}
	first, second := put("x"), put("y")

	waiting, err := s.Confirmations(t.Context(), []string{"waiting"}, 10)
	require.NoError(t, err)
	require.Len(t, waiting, 2)
	require.Equal(t, second.Revision, waiting[0].Revision)
	require.Equal(t, []any{"ada", "careful", 90 * time.Second, true}, []any{waiting[1].Author, waiting[1].Message, waiting[1].Within, waiting[1].EndedAt.IsZero()})
	require.Equal(t, first.Deadline, waiting[1].Deadline)

	_, err = s.Confirm(t.Context(), 0, "bob")
	var refused *store.RefusedError
	require.ErrorAs(t, err, &refused, "it is not clear which")
	confirmed, err := s.Confirm(t.Context(), second.Revision, "bob")
	require.NoError(t, err)
	require.Equal(t, second.Revision, confirmed)
	only, err := s.Confirm(t.Context(), 0, "bob")
	require.NoError(t, err)
	require.Equal(t, first.Revision, only)
	all, err := s.Confirmations(t.Context(), nil, 1)
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.Equal(t, []string{"confirmed", "bob"}, []string{all[0].State, all[0].EndedBy})
}

func TestAChangeIsMadeOnlyToWhatItExpects(t *testing.T) {
	t.Parallel()
	s, url := open(t)
	db := connect(t, url)
	db.Put("x", "a")
	db.Put("gone", "a")
	db.Exec("DELETE FROM mesh.resources WHERE name = 'gone'")
	apply := func(expected ...store.Expected) error {
		_, err := s.Apply(t.Context(), store.Apply{
			Upserts: []store.Upsert{{Key: vs(t, "x"), Spec: virtualService("b")}, {Key: vs(t, "new"), Spec: virtualService("b")}}, Expected: expected, DryRun: true,
		})
		return err
	}

	require.NoError(t, apply(store.Expected{vs(t, "x"), 1}, store.Expected{vs(t, "new"), 0}, store.Expected{vs(t, "other"), 0}))
	for reason, expected := range map[string]store.Expected{
		"VirtualService default/x: is at revision 1":                {vs(t, "x"), 7},
		"VirtualService default/x: exists, since revision 1":        {vs(t, "x"), 0},
		"VirtualService default/gone: was deleted by revision 3":    {vs(t, "gone"), 2},
		"VirtualService default/other: there is no such resource; ": {vs(t, "other"), 1},
	} {
		err := apply(expected)
		require.ErrorIs(t, err, store.ErrChanged)
		require.ErrorContains(t, err, reason)
	}
	require.ErrorContains(t, apply(store.Expected{vs(t, "x"), 7}, store.Expected{vs(t, "other"), 7}), "other")
	require.Equal(t, store.Revision(3), value[int64](db, "SELECT mesh.newest_revision()"))
}

// Two who have read the same cannot both change it, whoever waits for whom.
func TestOfTwoWhoExpectTheSameOneSucceeds(t *testing.T) {
	t.Parallel()
	s, url := open(t)
	connect(t, url).Put("x", "a")
	for name, expected := range map[string]store.Revision{"x": 1, "new": 0} {
		key, results := vs(t, name), make(chan error, 8)
		for i := range cap(results) {
			go func() {
				_, err := s.Apply(t.Context(), store.Apply{
					Upserts:  []store.Upsert{{Key: key, Spec: virtualService(string(rune('b' + i)))}},
					Expected: []store.Expected{{key, expected}},
				})
				results <- err
			}()
		}
		succeeded := 0
		for range cap(results) {
			err := <-results
			if err == nil {
				succeeded++
				continue
			}
			require.True(t, errors.Is(err, store.ErrChanged) || errors.Is(err, store.ErrConflict), "%v", err)
		}
		require.Equal(t, 1, succeeded, name)
	}
}

func TestOverviewCounts(t *testing.T) {
	t.Parallel()
	s, url := open(t)
	empty, err := s.Overview(t.Context())
	require.NoError(t, err)
	require.Equal(t, store.Overview{Oldest: 1, Kinds: []store.KindCount{}}, empty)
	db := connect(t, url)
	db.Put("x", "a")
	db.Put("y", "a")
	db.Exec("BEGIN; SELECT mesh.commit_confirmed('1 hour'); INSERT INTO mesh.destination_rules (name, host) VALUES ('x', 'a'); COMMIT")

	o, err := s.Overview(t.Context())

	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), o.NewestTime, time.Minute)
	require.Equal(t, []store.KindCount{{"networking.istio.io", "DestinationRule", 1}, {"networking.istio.io", "VirtualService", 2}}, o.Kinds)
	require.Equal(t, []int64{3, 1, 1}, []int64{o.Newest, o.Oldest, int64(o.Waiting)})
}

func TestBatchesSinceAPosition(t *testing.T) {
	t.Parallel()
	s, url := open(t)
	db := connect(t, url)
	none, more, err := s.Since(t.Context(), store.At(0))
	require.NoError(t, err)
	require.False(t, more)
	require.Empty(t, none)
	for _, host := range []string{"a", "b", "c"} {
		db.Put("x", host)
	}

	batches, more, err := s.Since(t.Context(), store.At(1))

	require.NoError(t, err)
	require.False(t, more)
	require.Len(t, batches, 2)
	require.Equal(t, store.Revision(1), batches[0].Changes[0].Before.Revision)
	_, _, err = s.Since(t.Context(), batches[1].Position())
	require.NoError(t, err)
	for name, after := range map[string]store.Position{
		"a revision that is not there": store.At(4), "another one of the number": {Revision: 3, Mark: "other"},
	} {
		_, _, err := s.Since(t.Context(), after)
		require.ErrorIs(t, err, store.ErrTooOld, name)
	}
	db.Exec("SELECT mesh.prune(2)")
	_, _, err = s.Since(t.Context(), store.At(1))
	require.ErrorIs(t, err, store.ErrTooOld)
}
