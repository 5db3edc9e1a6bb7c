package store_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
)

// unconfirmed commits a change that is to be confirmed within an hour.
func (s session) unconfirmed(sql string) (revision int64) {
	s.T.Helper()
	s.Exec("BEGIN; SELECT mesh.commit_confirmed('1 hour')")
	s.Exec(sql)
	s.Exec("COMMIT")
	return s.Newest()
}

// expire lets the time of a revision be over and takes it back.
func (s session) expire(revision int64) (state string) {
	s.T.Helper()
	s.Exec("UPDATE mesh_internal.deadlines SET deadline = clock_timestamp() WHERE revision = $1", revision)
	return value[string](s, "SELECT state FROM mesh.revert_overdue()")
}

func (s session) hosts() map[string]string {
	s.T.Helper()
	rows, err := s.Conn.Query(context.Background(), "SELECT name, spec #>> '{hosts,0}' FROM mesh.resources")
	require.NoError(s.T, err)
	found := map[string]string{}
	var name, host string
	_, err = pgx.ForEachRow(rows, []any{&name, &host}, func() error {
		found[name] = host
		return nil
	})
	require.NoError(s.T, err)
	return found
}

func setHost(name, host string) string {
	return fmt.Sprintf(`INSERT INTO mesh.resources (kind, name, spec) VALUES ('VirtualService', '%s', '{"hosts": ["%s"], "http": [{"redirect": {"uri": "/"}}]}')
		ON CONFLICT (kind, api_group, namespace, name) DO UPDATE SET spec = EXCLUDED.spec;`, name, host)
}

func TestConfirmationsAreListed(t *testing.T) {
	t.Parallel()
	wait, change := "SELECT mesh.commit_confirmed('5 minutes');", setHost("x", "b")
	for _, test := range []struct {
		name, sql string
		within    string // "" if nothing is to be confirmed
	}{
		{"called before the change", wait + change, "00:05:00"},
		{"called after the change", change + wait, "00:05:00"},
		{"called twice", wait + change + "SELECT mesh.commit_confirmed('1 hour')", "01:00:00"},
		{"called in a savepoint that is kept", change + "SAVEPOINT s;" + wait + "RELEASE s", "00:05:00"},
		{"called in a savepoint that is taken back", change + "SAVEPOINT s;" + wait + "ROLLBACK TO s", ""},
		{"changed in a savepoint", wait + "SAVEPOINT s;" + change + "RELEASE s", "00:05:00"},
		{"named too", "SELECT mesh.begin_change('a try');" + wait + change, "00:05:00"},
		{"constraints checked before the call", change + "SET CONSTRAINTS ALL IMMEDIATE;" + wait, "00:05:00"},
		{"constraints checked after the change", change + wait + "SET CONSTRAINTS ALL IMMEDIATE;" + setHost("y", "b"), "00:05:00"},
		{"not called", change, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			db := connect(t, pgtest.New(t))
			db.Exec(setHost("x", "a"))
			db.Exec("BEGIN;" + test.sql + ";COMMIT")
			require.Equal(t, int64(2), db.Newest())
			if test.within == "" {
				require.Zero(t, value[int](db, "SELECT count(*) FROM mesh.confirmations"))
				return
			}
			require.Equal(t, "2 waiting "+test.within, value[string](db, "SELECT concat_ws(' ', revision, state, within) FROM mesh.confirmations"))
			require.True(t, value[bool](db, "SELECT deadline = time + within FROM mesh.confirmations JOIN mesh.revisions USING (revision)"))
			require.Equal(t, int64(2), value[int64](db, "SELECT mesh.confirm()"))
			require.Equal(t, int64(2), value[int64](db, "SELECT mesh.confirm(2)"), "once more does no harm")
			require.Equal(t, "confirmed", value[string](db, "SELECT state FROM mesh.confirmations"))
		})
	}
}

func TestNothingToConfirm(t *testing.T) {
	t.Parallel()
	db := connect(t, pgtest.New(t))
	err := db.Refused("SELECT mesh.commit_confirmed('5 minutes')")
	require.Equal(t, "MS006", err.Code, "as where each statement is a transaction of its own")
	require.Contains(t, err.Hint, "between BEGIN and COMMIT")
	require.Equal(t, "22023", db.Refused("SELECT mesh.commit_confirmed('0')").Code)
	require.Equal(t, "22023", db.Refused("SELECT mesh.commit_confirmed(NULL)").Code)
	require.Zero(t, value[int](db, "SELECT count(*) FROM mesh_internal.transactions"))
}

func TestConfirmationsThatAreRefused(t *testing.T) {
	t.Parallel()
	db := connect(t, pgtest.New(t))
	refused := func(sql, message, hint string) {
		t.Helper()
		err := db.Refused(sql)
		require.Equal(t, "MS006", err.Code)
		require.Contains(t, err.Message, message)
		require.Contains(t, err.Hint, hint)
	}
	refused("SELECT mesh.confirm()", "no revisions wait for a confirmation", "mesh.confirmations")
	refused("SELECT mesh.confirm(7)", "revision 7 does not wait for a confirmation", "none does")
	db.unconfirmed(setHost("x", "a"))
	db.unconfirmed(setHost("y", "a"))
	refused("SELECT mesh.confirm()", "2 revisions wait for a confirmation", "name the one you mean: 1, 2")
	refused("SELECT mesh.confirm(7)", "revision 7 does not wait for a confirmation", "these do: 1, 2")

	db.Exec("UPDATE mesh_internal.deadlines SET deadline = clock_timestamp() WHERE revision = 1")
	refused("SELECT mesh.confirm(1)", "and is about to be reverted", "make the change again")
	require.Equal(t, "reverted", value[string](db, "SELECT state FROM mesh.revert_overdue()"))
	refused("SELECT mesh.confirm(1)", "revision 3 has reverted it", "SELECT * FROM mesh.revert(3)")
	refused("SELECT mesh.revert(1)", "revision 1 was reverted already", "mesh.confirmations")
	require.Equal(t, map[string]string{"y": "a"}, db.hosts())
	db.Exec("SELECT * FROM mesh.revert(3)")
	require.Equal(t, map[string]string{"x": "a", "y": "a"}, db.hosts())
}

func TestRevertOfWhatWasNotConfirmed(t *testing.T) {
	t.Parallel()
	db := connect(t, pgtest.New(t))
	db.Exec(setHost("changed", "old") + setHost("deleted", "old") + setHost("renamed", "old"))
	before := content(db.state("mesh.readable_resources"))
	bad := db.unconfirmed(setHost("changed", "new") + setHost("created", "new") +
		"DELETE FROM mesh.resources WHERE name = 'deleted'; UPDATE mesh.resources SET name = 'other' WHERE name = 'renamed'")
	require.Empty(t, collect[*int64](db, "SELECT revision FROM mesh.revert_overdue() WHERE revision IS NOT NULL"), "there is time")
	db.Exec("SET mesh.message = 'another matter'")
	require.Equal(t, "reverted", db.expire(bad))
	require.Equal(t, before, content(db.state("mesh.readable_resources")))
	revert := bad + 1
	require.Equal(t, []string{"create deleted", "create renamed", "delete created", "delete other", "update changed"},
		collect[string](db, "SELECT operation || ' ' || name FROM mesh.history WHERE revision = $1 ORDER BY operation, name", revert), "one revision")
	require.Equal(t, fmt.Sprintf("mesh.commit_confirmed: revert of revision %d: not confirmed within 1 hour", bad),
		value[string](db, "SELECT author || ': ' || message FROM mesh.revisions WHERE revision = $1", revert))
	require.Equal(t, fmt.Sprintf("reverted mesh.commit_confirmed %d", revert),
		value[string](db, "SELECT concat_ws(' ', state, ended_by, reverted_by, conflicts) FROM mesh.confirmations"))
	require.Empty(t, collect[*int64](db, "SELECT revision FROM mesh.revert_overdue() WHERE revision IS NOT NULL"), "once")
}

func TestLaterChangesAreRespected(t *testing.T) {
	t.Parallel()
	db := connect(t, pgtest.New(t))
	names := []string{"alone", "changed", "created", "deleted", "back", "handled"}
	for _, name := range []string{"alone", "changed", "deleted", "back", "handled"} {
		db.Exec(setHost(name, "old"))
	}
	var sql strings.Builder
	for _, name := range names {
		sql.WriteString(setHost(name, "bad"))
	}
	bad := db.unconfirmed(sql.String() + "DELETE FROM mesh.resources WHERE name = 'deleted'")
	db.Exec(setHost("changed", "later"))
	db.Exec(setHost("created", "later"))
	db.Exec(setHost("deleted", "later"))
	db.Exec(setHost("back", "later"))
	db.Exec(setHost("back", "bad"))
	db.Exec(setHost("handled", "old"))
	last := db.Newest()

	require.Equal(t, "conflict", db.expire(bad))
	require.Equal(t, map[string]string{"alone": "old", "changed": "later", "created": "later", "deleted": "later", "back": "old", "handled": "old"}, db.hosts())
	require.Equal(t, []string{"update alone", "update back"}, db.history(last+1), "what was taken back since is as it was left")
	require.Equal(t, []string{
		fmt.Sprintf("changed %d revision %[1]d has changed it since", bad+1),
		fmt.Sprintf("created %d revision %[1]d has changed it since", bad+2),
		fmt.Sprintf("deleted %d revision %[1]d has changed it since", bad+3),
	}, collect[string](db, "SELECT concat_ws(' ', name, changed_by, reason) FROM mesh.conflicts ORDER BY name"))
	require.Equal(t, 3, value[int](db, "SELECT jsonb_array_length(conflicts) FROM mesh.confirmations"))

	db.Exec(setHost("changed", "settled"))
	db.Exec("DELETE FROM mesh.resources WHERE name = 'created'")
	require.Equal(t, []string{"deleted"}, collect[string](db, "SELECT name FROM mesh.conflicts"), "a conflict is over when somebody has seen to it")
	require.Equal(t, 3, value[int](db, "SELECT jsonb_array_length(conflicts) FROM mesh.confirmations"), "and is remembered")
}

// Changes that nobody confirms on top of others that nobody confirms end where it all began,
// whichever is over first.
func TestUnconfirmedOnTopOfUnconfirmed(t *testing.T) {
	t.Parallel()
	for name, later := range map[string]string{"changed": setHost("x", "three"), "deleted": "DELETE FROM mesh.resources"} {
		for _, first := range []int64{2, 3} {
			t.Run(fmt.Sprintf("%s, %d first", name, first), func(t *testing.T) {
				t.Parallel()
				db := connect(t, pgtest.New(t))
				db.Exec(setHost("x", "one"))
				db.unconfirmed(setHost("x", "two"))
				db.unconfirmed(later)
				db.expire(first)
				require.Equal(t, "reverted", db.expire(5-first))
				require.Equal(t, map[string]string{"x": "one"}, db.hosts())
				require.Empty(t, collect[string](db, "SELECT name FROM mesh.conflicts"))
			})
		}
	}
}

func TestConfirmedOnTopOfUnconfirmed(t *testing.T) {
	t.Parallel()
	db := connect(t, pgtest.New(t))
	db.Exec(setHost("x", "one"))
	db.unconfirmed(setHost("x", "two"))
	db.unconfirmed(setHost("x", "three"))
	db.Exec("SELECT mesh.confirm(3)")
	require.Equal(t, "conflict", db.expire(2))
	require.Equal(t, map[string]string{"x": "three"}, db.hosts())
	require.Equal(t, int64(3), db.Newest(), "nothing to change is no revision")
	require.Contains(t, db.Refused("SELECT mesh.confirm(2)").Message, "could not be reverted")
}

// A revert that breaks a rule of today is not tried for ever.
func TestRevertThatIsRefused(t *testing.T) {
	t.Parallel()
	db := connect(t, pgtest.New(t))
	db.Exec(setHost("x", "a") + setHost("y", "a"))
	db.Exec(`ALTER TABLE mesh.resources DISABLE TRIGGER USER; UPDATE mesh.resources SET spec = '{"hosts": ["a"], "htp": []}' WHERE name = 'x'; ALTER TABLE mesh.resources ENABLE TRIGGER USER`)
	bad := db.unconfirmed(`UPDATE mesh.resources SET spec = '{"hosts": ["b"], "http": [{"redirect": {"uri": "/"}}]}'`)
	require.Equal(t, "conflict", db.expire(bad))
	require.Equal(t, map[string]string{"x": "b", "y": "b"}, db.hosts(), "all or nothing")
	require.Equal(t, []string{
		`x VirtualService default/x: spec.htp: unknown field "htp"`,
		`y VirtualService default/x: spec.htp: unknown field "htp"`,
	}, collect[string](db, "SELECT name || ' ' || reason FROM mesh.conflicts ORDER BY name"))
	db.Exec(setHost("x", "c") + "DELETE FROM mesh.resources WHERE name = 'y'")
	require.Empty(t, collect[string](db, "SELECT name FROM mesh.conflicts"))
}

func TestRevertByHand(t *testing.T) {
	t.Parallel()
	db := connect(t, pgtest.New(t))
	db.Exec("BEGIN;" + setHost("x", "one") + setHost("y", "one") + "COMMIT")
	db.Exec("BEGIN;" + setHost("x", "two") + setHost("y", "two") + setHost("z", "two") + "COMMIT")
	db.Exec(setHost("y", "three"))
	outcomes := "SELECT concat_ws(' ', outcome, name, changed_by) FROM mesh.revert($1)"
	require.Equal(t, []string{"reverted x", "conflict y 3", "reverted z"}, collect[string](db, outcomes, 2))
	require.Equal(t, map[string]string{"x": "one", "y": "three"}, db.hosts())
	require.Equal(t, "revert of revision 2", value[string](db, "SELECT message FROM mesh.revisions WHERE revision = 4"))
	require.Empty(t, collect[string](db, "SELECT name FROM mesh.conflicts"), "who calls is told")
	require.Equal(t, []string{"unchanged x 4", "conflict y 3", "unchanged z 4"}, collect[string](db, outcomes, 2))
	require.Equal(t, int64(4), db.Newest())

	db.unconfirmed(setHost("x", "bad"))
	db.Exec("BEGIN; SELECT mesh.begin_change('enough of it'); SELECT * FROM mesh.revert(5);" + setHost("w", "more") + "COMMIT")
	require.Equal(t, "reverted 6", value[string](db, "SELECT concat_ws(' ', state, reverted_by) FROM mesh.confirmations"))
	require.Equal(t, "enough of it", value[string](db, "SELECT message FROM mesh.revisions WHERE revision = 6"))
	require.Equal(t, map[string]string{"x": "one", "y": "three", "w": "more"}, db.hosts())
}

// What a revision has changed of a resource is taken back beside what others have changed of it since.
func TestRevertOfPartsOfResources(t *testing.T) {
	t.Parallel()
	db := connect(t, pgtest.New(t))
	label := func(key string) string {
		return `UPDATE mesh.virtual_services SET labels = labels || '{"` + key + `": "1"}' WHERE name = 'x';`
	}
	note := func(key string) string {
		return `UPDATE mesh.virtual_services SET annotations = annotations || '{"` + key + `": "1"}' WHERE name = 'x';`
	}
	const is = "SELECT concat_ws(' ', spec #>> '{hosts,0}', labels, annotations) FROM mesh.resources WHERE name = 'x'"
	outcomes := func(revision int64) []string {
		return collect[string](db, "SELECT concat_ws(' ', outcome, name, changed_by) FROM mesh.revert($1)", revision)
	}
	db.Exec(setHost("x", "one"))
	db.Exec("BEGIN;" + setHost("x", "two") + note("with") + "COMMIT") // 2
	db.Exec(label("team"))                                            // 3
	require.Equal(t, []string{"reverted x"}, outcomes(2))             // 4
	require.Equal(t, `one {"team": "1"} {}`, value[string](db, is))
	require.Equal(t, []string{"reverted x"}, outcomes(3)) // 5
	require.Equal(t, "one {} {}", value[string](db, is))
	require.Equal(t, []string{"unchanged x 5"}, outcomes(2))

	db.Exec(setHost("x", "six"))                                                  // 6
	db.Exec("BEGIN;" + setHost("x", "seven") + label("a") + note("b") + "COMMIT") // 7
	db.Exec(note("c"))                                                            // 8
	db.Exec(setHost("x", "nine"))                                                 // 9
	db.Exec(note("d"))                                                            // 10
	require.Equal(t, []string{"conflict x 9"}, outcomes(6), "who has changed the spec, not who came last")
	require.Equal(t, []string{"conflict x 10"}, outcomes(7), "a part is in the way of all")
	require.Equal(t, `nine {"a": "1"} {"b": "1", "c": "1", "d": "1"}`, value[string](db, is))
	require.Equal(t, []string{"reverted x"}, outcomes(9)) // 11
	require.Equal(t, []string{"reverted x"}, outcomes(10))
	require.Equal(t, []string{"reverted x"}, outcomes(8))
	require.Equal(t, []string{"reverted x"}, outcomes(7))
	require.Equal(t, "six {} {}", value[string](db, is))

	// Who has made a resource takes it away only as it was made, and one that is gone stays so.
	db.Exec(label("later"))
	require.Equal(t, []string{"conflict x 15"}, outcomes(1))
	db.Exec("DELETE FROM mesh.resources")
	require.Equal(t, []string{"conflict x 16"}, outcomes(15))
	require.Equal(t, []string{"reverted x"}, outcomes(16))

	// What somebody has made anew is not taken away by the one who made it before, even if it is the same.
	db.Exec(setHost("anew", "one")) // 18
	db.Exec("DELETE FROM mesh.resources WHERE name = 'anew'")
	db.Exec(setHost("anew", "one"))
	require.Equal(t, []string{"conflict anew 20"}, outcomes(18))
	require.Equal(t, []string{"reverted anew"}, outcomes(20))
}

// A migration tool looks at errors alone, so its way back asks for all or nothing.
func TestRevertOfTheWhole(t *testing.T) {
	t.Parallel()
	db := connect(t, pgtest.New(t))
	up := func(message string, names ...string) {
		db.Exec("BEGIN; SELECT mesh.begin_change('" + message + "')")
		for _, name := range names {
			db.Put(name, message)
		}
		db.Exec("COMMIT")
	}
	down := func(message string) string {
		return "SELECT mesh.revert(max(revision), whole => true) FROM mesh.revisions WHERE message = '" + message + "'"
	}
	up("one", "x", "y")
	up("two", "x", "y", "z")
	db.Put("y", "three")
	err := db.Refused(down("two"))
	require.Equal(t, "MS006", err.Code)
	require.Equal(t, "revision 2 cannot be taken back whole: VirtualService default/y was changed by revision 3", err.Message)
	require.Contains(t, err.Hint, "nothing was taken back")
	require.Equal(t, map[string]string{"x": "two", "y": "three", "z": "two"}, db.hosts())
	require.Equal(t, int64(3), db.Newest())

	db.Exec("BEGIN")
	db.Put("z", "three")
	require.Equal(t, "revision 2 cannot be taken back whole: VirtualService default/y was changed by revision 3, VirtualService default/z was changed by a transaction without a revision yet",
		db.Refused(down("two")).Message)
	db.Exec("ROLLBACK")

	db.Exec("BEGIN; SELECT mesh.revert(2, false)")
	require.Equal(t, map[string]string{"x": "one", "y": "three"}, db.hosts(), "the rest")
	db.Exec("ROLLBACK; SELECT mesh.revert(3, whole => true)")
	db.Exec(down("two")) // as y is again what it left
	require.Equal(t, map[string]string{"x": "one", "y": "one"}, db.hosts())

	names := []string{"a", "b", "c", "d", "e", "f", "g"}
	up("many", names...)
	up("more", names...)
	require.Regexp(t, "default/e was changed by revision 7, and 2 more$", db.Refused(down("many")).Message)
	db.Exec(down("more"))
	for _, name := range names {
		require.Equal(t, "many", db.hosts()[name])
	}
}

// Whoever writes a row while it is to be reverted comes first, and is respected.
func TestRevertWaitsForWriters(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	db, writer := connect(t, url), connect(t, url)
	db.Exec(setHost("x", "one") + setHost("gone", "one"))
	bad := db.unconfirmed(setHost("x", "two") + "DELETE FROM mesh.resources WHERE name = 'gone'")
	writer.Exec("BEGIN;" + setHost("x", "three") + setHost("gone", "three"))
	db.Exec("UPDATE mesh_internal.deadlines SET deadline = clock_timestamp()")
	state := make(chan string, 1)
	go func() {
		var s string
		_ = db.Conn.QueryRow(context.Background(), "SELECT state FROM mesh.revert_overdue()").Scan(&s)
		state <- s
	}()
	require.Eventually(t, func() bool {
		return value[bool](writer, "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database())")
	}, 10*time.Second, 5*time.Millisecond)
	writer.Exec("COMMIT")
	require.Equal(t, "conflict", <-state)
	require.Equal(t, map[string]string{"x": "three", "gone": "three"}, db.hosts())
	require.Equal(t, []int64{bad + 1, bad + 1}, collect[int64](db, "SELECT changed_by FROM mesh.conflicts"))
}

// Confirming and reverting at the same time, each revision goes one way.
func TestConfirmAndRevertRace(t *testing.T) {
	t.Parallel()
	const changes = 40
	url := pgtest.New(t)
	db := connect(t, url)
	for i := range changes {
		db.unconfirmed(setHost(fmt.Sprintf("x-%02d", i), "new"))
	}
	db.Exec("UPDATE mesh_internal.deadlines SET deadline = clock_timestamp() + revision % 8 * interval '2 milliseconds'")
	var group errgroup.Group
	for range 3 {
		s := connect(t, url)
		group.Go(func() error {
			for {
				var revision *int64
				if err := s.Conn.QueryRow(context.Background(), "SELECT revision FROM mesh.revert_overdue()").Scan(&revision); err != nil {
					return err
				}
				var left int
				if err := s.Conn.QueryRow(context.Background(), "SELECT count(*) FROM mesh_internal.deadlines WHERE state = 'waiting'").Scan(&left); err != nil || left == 0 {
					return err
				}
			}
		})
	}
	confirmed := 0
	for i := range changes {
		if _, err := db.Conn.Exec(t.Context(), "SELECT mesh.confirm($1)", i+1); err == nil {
			confirmed++
		}
	}
	require.NoError(t, group.Wait())
	require.Equal(t, confirmed, value[int](db, "SELECT count(*) FROM mesh.confirmations WHERE state = 'confirmed'"))
	require.Equal(t, changes-confirmed, value[int](db, "SELECT count(*) FROM mesh.confirmations WHERE state = 'reverted'"))
	require.Equal(t, confirmed, value[int](db, "SELECT count(*) FROM mesh.resources"))
	require.Equal(t, int64(2*changes-confirmed), db.Newest())
}

func TestIntervalsInWords(t *testing.T) {
	t.Parallel()
	db := connect(t, pgtest.New(t))
	for interval, words := range map[string]string{
		"5 minutes": "5 minutes", "90 minutes": "1 hour 30 minutes", "1 second": "1 second", "0.25 seconds": "250 milliseconds",
		"2 days": "2 days", "36 hours 5 seconds": "1 day 12 hours 5 seconds", "1 month": "30 days",
	} {
		require.Equal(t, words, value[string](db, "SELECT mesh_internal.in_words($1::text::interval)", interval))
	}
}

func TestTenantsConfirmWhatIsTheirs(t *testing.T) {
	t.Parallel()
	y := newTenancy(t)
	tenant := y.tenant("tenant")
	change := func(s session, namespace string) int64 {
		s.Exec("BEGIN; SELECT mesh.commit_confirmed('1 hour')")
		s.Exec(`INSERT INTO mesh.resources (kind, namespace, name, spec) VALUES ('VirtualService', $1, 'y-' || mesh.newest_revision(), $2)`, namespace, virtualService("y"))
		s.Exec("COMMIT")
		return y.owner.Newest()
	}
	own, foreign := change(tenant, "a"), change(y.owner, "b")
	require.Equal(t, []int64{own}, collect[int64](tenant, "SELECT revision FROM mesh.confirmations"))
	for _, call := range []string{"SELECT mesh.confirm($1)", "SELECT * FROM mesh.revert($1)"} {
		err := tenant.Refused(call, foreign)
		require.Equal(t, "42501", err.Code)
		require.Contains(t, err.Hint, "SELECT mesh.grant_namespace(")
	}
	require.Equal(t, own, value[int64](tenant, "SELECT mesh.confirm()"), "the others are not theirs to know of")
	require.Equal(t, "reverted", value[string](tenant, "SELECT outcome FROM mesh.revert($1)", own))
	require.Equal(t, "waiting", value[string](y.owner, "SELECT state FROM mesh.confirmations WHERE revision = $1", foreign))

	reader := y.tenant("reader", [2]string{"b", "read"})
	require.Equal(t, "42501", reader.Refused("SELECT mesh.confirm($1)", foreign).Code)
	require.Equal(t, "42501", reader.Refused("SELECT * FROM mesh.restore(1, namespaces => '{b}')").Code)
	reader.Exec("SELECT * FROM mesh.restore(1, namespaces => '{a}')")
}

// A server need not be the owner.
func TestServersKeepHouse(t *testing.T) {
	t.Parallel()
	y := newTenancy(t)
	role := y.role("server")
	y.owner.Exec("SELECT mesh.grant_server($1)", role)
	server := y.as(role)
	bad := y.owner.unconfirmed(setHost("z", "b"))
	require.Equal(t, int64(1), value[int64](server, "SELECT waiting FROM mesh_internal.chores()"))
	y.owner.Exec("UPDATE mesh_internal.deadlines SET deadline = clock_timestamp()")
	require.Equal(t, "reverted", value[string](server, "SELECT state FROM mesh.revert_overdue()"))
	require.Equal(t, "mesh.commit_confirmed", value[string](server, "SELECT author FROM mesh.revisions WHERE revision = $1", bad+1))
	y.owner.Exec("INSERT INTO mesh.settings (name, value) VALUES ('history_max_revisions', '1')")
	require.Equal(t, bad, value[int64](server, "SELECT mesh.prune_expired()"))
}

// Where references are strict, a revert that would leave one dangling is refused at commit.
func TestRevertOfWhatOthersReferTo(t *testing.T) {
	t.Parallel()
	db := connect(t, pgtest.New(t))
	db.Exec("INSERT INTO mesh.settings (name, value) VALUES ('strict_references', 'on')")
	bad := db.unconfirmed(`INSERT INTO mesh.resources (kind, name, spec) VALUES ('ServiceEntry', 'shop',
		'{"hosts": ["shop.example"], "ports": [{"number": 80, "name": "http", "protocol": "HTTP"}], "resolution": "DNS"}')`)
	db.Put("route", "shop.example")
	require.Equal(t, "conflict", db.expire(bad))
	require.Equal(t, 2, value[int](db, "SELECT count(*) FROM mesh.resources"))
	require.Contains(t, value[string](db, "SELECT reason FROM mesh.conflicts"), "shop.example")
	require.Equal(t, bad+1, db.Newest())
}
