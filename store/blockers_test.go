package store_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/identity/callers"
	"github.com/pgmesh/pgmesh/store/identity/trust"
	"github.com/pgmesh/pgmesh/store/resources"
)

// holding has a tenant lock a row of its own in a transaction that it leaves open, and returns the
// tenant.
func (y tenancy) holding(t *testing.T) session {
	t.Helper()
	tenant := y.tenant("evil")
	tenant.Exec("SET application_name = 'psql of evil'")
	tenant.Exec("BEGIN")
	tenant.Exec("UPDATE mesh.resources SET spec = spec WHERE namespace = 'a'")
	return tenant
}

// impatient is a store that waits for a lock no longer than a time.
func impatient(t *testing.T, url string, o store.Options) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), url, o)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s
}

// seenWaiting returns when a change was seen to wait for somebody.
func seenWaiting(t *testing.T, told <-chan struct{}, done <-chan error) {
	t.Helper()
	select {
	case <-told:
	case err := <-done:
		require.FailNow(t, "it did not wait", "%v", err)
	}
}

// changeOfA changes the resource of the namespace a.
func changeOfA(t *testing.T, host string) resources.Apply {
	t.Helper()
	key := vs(t, "x")
	key.Namespace = "a"
	return resources.Apply{Upserts: []resources.Upsert{{Key: key, Spec: virtualService(host)}}}
}

func TestAChangeSaysWhoIsInItsWay(t *testing.T) {
	t.Parallel()
	y := newTenancy(t)
	told := make(chan struct{}, 100)
	s := impatient(t, y.url, store.Options{LockTimeout: 4 * time.Second, Blocked: func() { told <- struct{}{} }})
	evil := y.holding(t)
	failed := make(chan error, 1)
	change := changeOfA(t, "other")
	go func() {
		_, err := resources.New(s).Apply(context.WithoutCancel(t.Context()), change)
		failed <- err
	}()
	seenWaiting(t, told, failed)
	list, err := s.Blockers(t.Context())
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, "lock", list[0].Reason)
	require.Equal(t, int32(evil.Conn.PgConn().PID()), list[0].PID)
	require.Len(t, list[0].Blocks, 1)
	require.False(t, list[0].Server)
	require.NotEmpty(t, list[0].Transaction)
	var blocked *store.BlockedError
	err = <-failed
	require.ErrorAs(t, err, &blocked)
	require.Contains(t, err.Error(), `_evil" (application "psql of evil"`)
	require.Contains(t, err.Error(), "mcp-client blockers end ")
	require.True(t, store.Temporary(err))
}

func TestABlockerIsEnded(t *testing.T) {
	t.Parallel()
	y := newTenancy(t)
	told := make(chan struct{}, 100)
	s := impatient(t, y.url, store.Options{LockTimeout: time.Minute, Blocked: func() { told <- struct{}{} }})
	evil := y.holding(t)
	pid := int32(evil.Conn.PgConn().PID())
	require.ErrorContains(t, s.EndBlocker(t.Context(), pid, ""), "nobody waits for the session")
	done := make(chan error, 1)
	change := changeOfA(t, "other")
	go func() {
		_, err := resources.New(s).Apply(context.WithoutCancel(t.Context()), change)
		done <- err
	}()
	seenWaiting(t, told, done)
	require.ErrorContains(t, s.EndBlocker(t.Context(), pid, "99/99"), "nobody waits for the session", "it may have gone on to another transaction")
	require.NoError(t, s.EndBlocker(t.Context(), pid, ""))
	require.NoError(t, <-done)
	_, err := evil.Conn.Exec(t.Context(), "SELECT 1")
	require.Error(t, err)
}

func TestTenantsSeeAndEndNobody(t *testing.T) {
	t.Parallel()
	y := newTenancy(t)
	y.holding(t)
	other := y.tenant("other")
	require.Zero(t, value[int64](other, "SELECT count(*) FROM mesh.blockers"))
	require.Equal(t, "42501", other.Refused("SELECT mesh.end_blocker(1)").Code)
}

// An owner who is no superuser may need a privilege, and is told which.
func TestAnOwnerLearnsWhichPrivilegeEndingNeeds(t *testing.T) {
	t.Parallel()
	y := newTenancy(t)
	owner := y.role("lord")
	y.owner.Exec("GRANT " + owner + " TO " + value[string](y.owner, "SELECT current_user"))
	y.owner.Exec("ALTER FUNCTION mesh.end_blocker OWNER TO " + owner)
	y.owner.Exec("GRANT USAGE ON SCHEMA mesh TO " + owner + "; GRANT EXECUTE ON ALL ROUTINES IN SCHEMA mesh TO " + owner)
	y.owner.Exec("SELECT mesh.grant_server($1)", owner)
	y.owner.Exec("ALTER FUNCTION mesh.end_blocker OWNER TO " + owner)
	t.Cleanup(func() {
		y.owner.Exec("ALTER FUNCTION mesh.end_blocker OWNER TO " + value[string](y.owner, "SELECT session_user"))
	})
	s := impatient(t, y.url, store.Options{LockTimeout: 10 * time.Second, Blocked: func() {}})
	evil := y.holding(t)
	done := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	change := changeOfA(t, "other")
	go func() {
		_, err := resources.New(s).Apply(ctx, change)
		done <- err
	}()
	require.Eventually(t, func() bool { return value[int64](y.owner, "SELECT count(*) FROM mesh.blockers") == 1 }, 5*time.Second, 10*time.Millisecond)
	err := s.EndBlocker(t.Context(), int32(evil.Conn.PgConn().PID()), "")
	require.ErrorContains(t, err, "GRANT pg_signal_backend TO "+owner)
	cancel()
	require.Error(t, <-done)
}

func TestTrustDoesNotWaitBehindChanges(t *testing.T) {
	t.Parallel()
	y := newTenancy(t)
	s := impatient(t, y.url, store.Options{LockTimeout: time.Minute})
	y.holding(t)
	ctx, cancel := context.WithCancel(t.Context())
	const many = 20 // more than there are connections
	done := make(chan error, many)
	change := changeOfA(t, "other")
	for range many {
		go func() {
			_, err := resources.New(s).Apply(ctx, change)
			done <- err
		}()
	}
	require.Eventually(t, func() bool {
		return value[int64](y.owner, "SELECT coalesce(sum(cardinality(blocks)), 0) FROM mesh.blockers") >= 4
	}, 10*time.Second, 10*time.Millisecond)
	revoked, err := trust.New(s).RevokeIdentity(t.Context(), "b", "thief", "stolen", "")
	require.NoError(t, err)
	require.True(t, revoked)
	now, err := trust.New(s).Trust(t.Context())
	require.NoError(t, err)
	require.Len(t, now.Revoked, 1)
	_, err = callers.New(s).Tokens(t.Context())
	require.NoError(t, err)
	cancel()
	for range many {
		require.Error(t, <-done)
	}
}
