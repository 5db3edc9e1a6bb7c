package store_test

import (
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/internal/testbench/storetest"
)

// warned is a session that keeps its notices.
func warned(t *testing.T, url string) (session, func() []*pgconn.Notice) {
	t.Helper()
	var heard []*pgconn.Notice
	db := session{storetest.ConnectHearing(t, url, func(n *pgconn.Notice) { heard = append(heard, n) })}
	return db, func() []*pgconn.Notice {
		taken := heard
		heard = nil
		return taken
	}
}

func TestATransactionIsWarnedOfDanglingReferences(t *testing.T) {
	t.Parallel()
	db, warnings := warned(t, pgtest.New(t))
	told := func() (messages []string) {
		for _, w := range warnings() {
			require.Equal(t, []string{"WARNING", "MS005"}, []string{w.Severity, w.Code})
			require.Empty(t, w.Detail)
			messages = append(messages, w.Message)
		}
		return messages
	}
	const noSubset = `VirtualService default/a: spec.http[0].route[0].destination.subset: no DestinationRule declares subset "v1" of the host "reviews.default.svc.cluster.local" for namespace "default"`

	db.create("ServiceEntry", "default", "reviews", reviews)
	db.create("DestinationRule", "default", "reviews", subsets)
	db.create("VirtualService", "default", "a", route("reviews", `{"host": "reviews", "subset": "v1"}`))
	require.Empty(t, told())

	// What another resource takes away is said, and only once.
	db.Exec(`UPDATE mesh.resources SET spec = spec - 'subsets' WHERE kind = 'DestinationRule'`)
	require.Equal(t, []string{noSubset}, told())
	db.Exec(`UPDATE mesh.resources SET spec = jsonb_set(spec, '{http,0,timeout}', '"5s"') WHERE kind = 'VirtualService'`)
	db.Exec(`UPDATE mesh.resources SET labels = '{"a": "b"}'`)
	require.Empty(t, told())

	// An old problem that moves is no new one.
	db.Exec(`UPDATE mesh.resources SET spec = jsonb_set(spec, '{http}', '[{"match": [{"uri": {"prefix": "/x"}}], "route": [{"destination": {"host": "reviews"}}]}]' || (spec -> 'http')) WHERE kind = 'VirtualService'`)
	require.Empty(t, told())

	// What is put right in the same transaction is not said.
	db.Exec(`BEGIN; DELETE FROM mesh.resources WHERE kind = 'ServiceEntry'`)
	db.create("ServiceEntry", "default", "again", reviews)
	db.Exec("COMMIT")
	require.Empty(t, told())

	// What comes at once from many is cut short.
	db.Exec(`INSERT INTO mesh.resources (kind, name, spec) SELECT 'VirtualService', 'v' || i, jsonb_build_object('hosts', jsonb_build_array('h' || i || '.example.com'),
		'http', '[{"route": [{"destination": {"host": "nobody"}}]}]'::jsonb) FROM generate_series(1, 14) i`)
	messages := told()
	require.Len(t, messages, 11)
	require.Equal(t, "and 4 more problems", messages[10])
	db.Exec(`DELETE FROM mesh.resources WHERE name LIKE 'v%'`)
	db.Exec(`INSERT INTO mesh.resources (kind, name, spec) SELECT 'VirtualService', 'v' || i, jsonb_build_object('hosts', jsonb_build_array('h' || i || '.example.com'),
		'http', '[{"route": [{"destination": {"host": "nobody"}}]}]'::jsonb) FROM generate_series(1, 300) i`)
	require.Equal(t, "and 290 more problems", told()[10])
}

// What a commit examines grows with what it changed, and not with the mesh, also before the tables
// are analyzed for the first time.
func TestACommitExaminesWhatItChangedAlone(t *testing.T) {
	t.Parallel()
	_, url := open(t)
	s := connect(t, url)
	add := func(from, to int) {
		s.Exec(`INSERT INTO mesh.resources (kind, namespace, name, spec) SELECT kind, 'team-' || i % 20, 'service-' || i, replace(spec, '%', i::text)::jsonb FROM generate_series($1::integer, $2) i, (VALUES
			('ServiceEntry', '{"hosts": ["service-%.test"], "resolution": "STATIC", "ports": [{"number": 80, "name": "http", "protocol": "HTTP"}]}'),
			('VirtualService', '{"hosts": ["service-%.test"], "http": [{"route": [{"destination": {"host": "service-%.test"}}]}]}')) kinds (kind, spec)`, from, to)
	}
	read := func() int {
		return value[int](s, "SELECT sum(pg_stat_get_xact_tuples_returned(i)) FROM pg_index, unnest(ARRAY[indrelid, indexrelid]) i WHERE indrelid = 'mesh_internal.links'::regclass")
	}
	add(1, 1000)
	for i := 1001; i <= 1010; i++ { // Postgres may change its plan at the sixth
		s.Exec("BEGIN")
		before := read()
		add(i, i)
		s.Exec("SET CONSTRAINTS ALL IMMEDIATE")
		require.Less(t, read()-before, 100, "service %d", i)
		s.Exec("COMMIT")
	}
}
