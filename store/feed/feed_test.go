package feed_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/internal/testbench/storetest"
	"github.com/pgmesh/pgmesh/store"
)

// The statistics that Postgres plans by are those of the last load, and a plan that fits that load
// reads everything for the change of one row. What is read is counted, for time would not tell.
func TestAChangeReadsWhatItChanges(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	db := storetest.Connect(t, url)
	db.Exec(`INSERT INTO mesh.resources (kind, name, spec) SELECT 'VirtualService', 'vs-' || i, replace($1::text, 'a', 'host-' || i)::jsonb FROM generate_series(1, 1000) i`,
		`{"hosts": ["a"], "http": [{"redirect": {"uri": "/"}}]}`)
	db.Exec(`DO $$ BEGIN
		FOR i IN 1..100 LOOP
			UPDATE mesh.resources SET labels = jsonb_build_object('n', i::text) WHERE kind = 'VirtualService' AND api_group = 'networking.istio.io' AND name = 'vs-1';
			COMMIT;
		END LOOP;
	END $$`)
	db.Exec("ANALYZE")
	fresh := storetest.Connect(t, url) // which has no plans from before
	fresh.Exec("BEGIN")
	fresh.Exec(`UPDATE mesh.resources SET spec = $1
		WHERE kind = 'VirtualService' AND api_group = 'networking.istio.io' AND namespace = 'default' AND name = 'vs-7'`, storetest.VirtualService("b"))
	fresh.Exec("SET CONSTRAINTS ALL IMMEDIATE; SET CONSTRAINTS ALL IMMEDIATE") // which is put off once a message
	read := storetest.Value[int64](fresh, `SELECT sum(seq_tup_read + idx_tup_fetch)::bigint FROM pg_stat_xact_user_tables
		WHERE relname IN ('resources', 'changes', 'transactions', 'links')`)
	require.Less(t, read, int64(100))
	require.Equal(t, int64(102), fresh.Newest(), "it is numbered")
}

// A transaction that stays open with its changes is nobody's hindrance, and comes when it commits.
func TestOpenTransactionsKeepNobodyWaiting(t *testing.T) {
	t.Parallel()
	s, url := open(t)
	batches := storetest.Follow(t, s, 0)
	var open []storetest.Session
	for _, constraints := range []string{"SELECT", "SET CONSTRAINTS ALL IMMEDIATE", "SET CONSTRAINTS ALL IMMEDIATE"} {
		idle := storetest.Connect(t, url)
		idle.Exec("BEGIN; " + constraints)
		idle.Put("idle-"+string(rune('a'+len(open))), "a")
		open = append(open, idle)
	}
	open[2].Exec("SET CONSTRAINTS ALL IMMEDIATE")
	quick := storetest.Connect(t, url)
	for i := range int64(3) {
		quick.Put("quick", string(rune('a'+i)))
		require.Equal(t, i+1, (<-batches).Revision)
	}
	for i, idle := range open {
		idle.Exec("COMMIT")
		b := <-batches
		require.Equal(t, store.Revision(4+i), b.Revision)
		require.Equal(t, "idle-"+string(rune('a'+i)), b.Changes[0].Key.Name)
	}
}

// A revision larger than a page comes alone and whole, and the small ones around it come by the
// page.
func TestPagesAreOfWholeRevisions(t *testing.T) {
	t.Parallel()
	s, url := open(t)
	db := storetest.Connect(t, url)
	for i := range 300 { // more than a page of revisions
		db.Put("x", string(rune('a'+i%2)))
	}
	db.Exec(`INSERT INTO mesh.resources (kind, name, spec) SELECT 'VirtualService', 'vs-' || i, $1 FROM generate_series(1, 5000) i`, storetest.VirtualService("a"))
	db.Put("x", "last")
	batches := storetest.Follow(t, s, 0)
	for i := range store.Revision(302) {
		b := <-batches
		require.Equal(t, i+1, b.Revision)
		want := 1
		if b.Revision == 301 {
			want = 5000
		}
		require.Len(t, b.Changes, want)
	}
}
