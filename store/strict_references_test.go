package store_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/store/resources"
)

func TestStrictReferences(t *testing.T) {
	t.Parallel()
	s, url := open(t)
	db := connect(t, url)
	db.create("ServiceEntry", "other", "b", `{"hosts": ["b.example.com"], "resolution": "DNS", "ports": [{"number": 80, "name": "http", "protocol": "HTTP"}]}`)
	db.create("VirtualService", "default", "old", route("old.example.com", `{"host": "gone.example.com"}`))
	db.create("VirtualService", "default", "good", route("good.example.com", `{"host": "b.example.com"}`))
	db.Exec("INSERT INTO mesh.settings (namespace, name, value) VALUES ('default', 'strict_references', 'on')")

	refused := db.Refused("DELETE FROM mesh.resources WHERE kind = 'ServiceEntry'")
	require.Equal(t, "23503", refused.Code)
	require.Equal(t, `VirtualService default/good: spec.http[0].route[0].destination.host: no ServiceEntry that namespace "default" can see has the host "b.example.com"`, refused.Message)

	// An old problem is no reason to refuse a change, and other namespaces are as they were.
	db.Exec(`UPDATE mesh.resources SET spec = jsonb_set(spec, '{hosts}', '["new.example.com"]') WHERE name = 'old'`)
	db.create("VirtualService", "other", "free", route("free.example.com", `{"host": "gone.example.com"}`))

	spec := []byte(route("new2.example.com", `{"host": "b.example.com", "subset": "v1"}`))
	for _, dryRun := range []bool{true, false} {
		_, err := resources.New(s).Apply(t.Context(), resources.Apply{Upserts: []resources.Upsert{{Key: vs(t, "new"), Spec: spec}}, DryRun: dryRun})
		var violations kinds.Errors
		require.ErrorAs(t, err, &violations)
		require.Equal(t, kinds.Errors{{
			Kind: "VirtualService", Namespace: "default", Name: "new", Path: "spec.http[0].route[0].destination.subset",
			Reason: `no DestinationRule declares subset "v1" of the host "b.example.com" for namespace "default"`, Hint: "add it to a DestinationRule for this host",
		}}, violations)
	}
}

// A transaction that asks for it is refused for what it would make wrong, and for nothing else.
func TestAStrictTransaction(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	db := connect(t, url)
	db.create("VirtualService", "default", "old", route("old.example.com", `{"host": "gone.example.com"}`))
	insert := func(name, http string) string {
		return fmt.Sprintf("INSERT INTO mesh.virtual_services (name, hosts, http) VALUES ('%s', '{%[1]s.example.com}', '%s')", name, http)
	}
	const elsewhere = `[{"redirect": {"uri": "/"}}]`
	nowhere := insert("a", `[{"route": [{"destination": {"host": "gone.example.com"}}]}]`)
	unreachable := insert("b", `[{"redirect": {"uri": "/"}}, {"redirect": {"uri": "/x"}}]`)
	as := func(strict, sql string) string {
		return "BEGIN; SET LOCAL mesh.strict = '" + strict + "'; " + sql + "; COMMIT"
	}

	for _, strict := range []string{"error", "on", "true", "warning"} {
		refused := db.Refused(as(strict, nowhere))
		db.Exec("ROLLBACK")
		require.Equal(t, "23503", refused.Code)
		require.Equal(t, "no_new_problems", refused.ConstraintName)
		require.Equal(t, `VirtualService default/a: spec.http[0].route[0].destination.host: no ServiceEntry that namespace "default" can see has the host "gone.example.com"`, refused.Message)
		require.Contains(t, refused.Hint, "(mesh.strict is '"+strict+"')")
	}
	require.Contains(t, db.Refused(as("warning", unreachable)).Message, "the route is never reached")
	db.Exec("ROLLBACK; BEGIN; SET LOCAL mesh.strict = 'error'; " + nowhere)
	require.Equal(t, []bool{true}, collect[bool](db, "SELECT refused FROM mesh.pending_problems()"))
	require.Contains(t, db.Refused("SET CONSTRAINTS ALL IMMEDIATE").Message, "gone.example.com")
	db.Exec("ROLLBACK")
	require.Equal(t, int64(1), db.Newest())

	db.Exec(as("error", unreachable))
	db.Exec(as("warning", "UPDATE mesh.virtual_services SET hosts = '{new.example.com}' WHERE name = 'old'")) // which was wrong before
	db.Exec(as("warning", insert("c", elsewhere)))
	db.Exec(as("off", nowhere))
	require.Equal(t, int64(5), db.Newest())
	refused := db.Refused(as("errors", insert("d", elsewhere)))
	require.Equal(t, "mesh.strict is 'errors'", refused.Message)
	require.Equal(t, "write error, to have problems of that severity refused (on and true are the same); warning, for both severities; or off", refused.Hint)
	db.Exec("ROLLBACK")
	db.Exec(as("false", insert("f", `[{"route": [{"destination": {"host": "gone.example.com"}}]}]`)))
	db.Exec(insert("e", `[{"route": [{"destination": {"host": "gone.example.com"}}]}]`)) // it held for the transaction
}

// Two transactions, of which each alone would leave all well, meet: whoever is first, also where
// one was examined before its end.
func TestStrictReferencesHoldBetweenTransactions(t *testing.T) {
	t.Parallel()
	for _, examined := range []string{"nobody", "who deletes", "who names"} {
		for _, deletesFirst := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s is examined before, deletes first %t", examined, deletesFirst), func(t *testing.T) {
				t.Parallel()
				testStrictReferencesBetween(t, examined, deletesFirst)
			})
		}
	}
}

func testStrictReferencesBetween(t *testing.T, examined string, deletesFirst bool) {
	t.Helper()
	url := pgtest.New(t)
	one, two, holder := connect(t, url), connect(t, url), connect(t, url)
	one.create("ServiceEntry", "default", "b", `{"hosts": ["b.example.com"], "resolution": "DNS", "ports": [{"number": 80, "name": "http", "protocol": "HTTP"}]}`)
	one.Exec("INSERT INTO mesh.settings (name, value) VALUES ('strict_references', 'on')")

	one.Exec("BEGIN; DELETE FROM mesh.resources WHERE kind = 'ServiceEntry'")
	two.Exec("BEGIN")
	two.create("VirtualService", "default", "a", route("a.example.com", `{"host": "b.example.com"}`))
	switch examined {
	case "who deletes":
		one.Exec("SET CONSTRAINTS ALL IMMEDIATE")
	case "who names":
		two.Exec("SET CONSTRAINTS ALL IMMEDIATE")
	}
	order := []session{one, two}
	if !deletesFirst {
		order = []session{two, one}
	}
	holder.Exec("BEGIN; LOCK TABLE mesh_internal.numbering IN SHARE UPDATE EXCLUSIVE MODE")
	var done []chan error
	for i, s := range order {
		committed := make(chan error, 1)
		done = append(done, committed)
		go func() {
			_, err := s.Conn.Exec(t.Context(), "COMMIT")
			committed <- err
		}()
		require.Eventually(t, func() bool {
			return value[int64](holder, "SELECT count(*) FROM pg_locks WHERE database = (SELECT oid FROM pg_database WHERE datname = current_database()) AND relation = 'mesh_internal.numbering'::regclass AND NOT granted") == int64(i)+1
		}, 10*time.Second, 5*time.Millisecond)
	}
	holder.Exec("COMMIT")
	require.NoError(t, <-done[0])
	require.ErrorContains(t, <-done[1], "23503")
}
