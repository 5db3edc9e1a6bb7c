package store_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/internal/testbench/storetest"
	"github.com/pgmesh/pgmesh/store/housekeeping"
)

// columnsOfResources are those that the past is told in.
const columnsOfResources = "api_group, kind, namespace, name, spec, labels, annotations, revision, generation, created_at, updated_at"

// state is every resource of a query, as text, by namespace and name.
func (s session) state(from string, args ...any) map[string]string {
	s.T.Helper()
	rows, err := s.Conn.Query(context.Background(), "SELECT concat(kind, ' ', namespace, '/', name), r::text FROM (SELECT "+columnsOfResources+" FROM "+from+") r", args...)
	require.NoError(s.T, err)
	defer rows.Close()
	found := map[string]string{}
	for rows.Next() {
		var key, row string
		require.NoError(s.T, rows.Scan(&key, &row))
		found[key] = row
	}
	require.NoError(s.T, rows.Err())
	return found
}

// past is what the tables said at each revision, and when that was.
type past struct {
	states []map[string]string
	times  []time.Time
}

// livePast runs random transactions and remembers.
func livePast(db session, transactions int) past {
	db.T.Helper()
	p := past{states: []map[string]string{{}}, times: []time.Time{{}}}
	dice := rand.New(rand.NewPCG(7, 7))
	for len(p.states) <= transactions {
		db.Exec("BEGIN")
		for range 1 + dice.IntN(3) {
			db.Exec(randomChange(dice))
		}
		db.Exec("COMMIT")
		if newest := db.Newest(); newest == int64(len(p.states)) {
			p.states = append(p.states, db.state("mesh.readable_resources"))
			p.times = append(p.times, value[time.Time](db, "SELECT time FROM mesh.revisions WHERE revision = $1", newest))
		}
	}
	return p
}

func randomChange(dice *rand.Rand) string {
	name, host := fmt.Sprintf("vs-%d", dice.IntN(8)), fmt.Sprintf("h%d", dice.IntN(4))
	spec := virtualService(host)
	if dice.IntN(2) == 0 {
		spec = json.RawMessage(fmt.Sprintf(`{"hosts": ["%s", "x"], "http": [{"timeout": "%ds", "route": [{"destination": {"host": "%[1]s"}}]}, {"route": [{"destination": {"host": "b"}}]}]}`, host, 1+dice.IntN(3)))
	}
	put := fmt.Sprintf(`INSERT INTO mesh.resources (kind, name, spec) VALUES ('VirtualService', '%s', '%s')
		ON CONFLICT (kind, api_group, namespace, name) DO UPDATE SET spec = EXCLUDED.spec`, name, spec)
	return []string{
		put, put, put,
		"DELETE FROM mesh.resources WHERE name = '" + name + "'",
		fmt.Sprintf(`UPDATE mesh.resources SET labels = '{"n": "%d"}' WHERE name >= '%s'`, dice.IntN(3), name),
		fmt.Sprintf("UPDATE mesh.resources SET name = name || '-x' WHERE name = '%s' AND NOT EXISTS (SELECT FROM mesh.resources WHERE name = '%[1]s-x')", name),
	}[dice.IntN(6)]
}

func TestAsOf(t *testing.T) {
	t.Parallel()
	const revisions, pruned = 40, 15
	db := connect(t, pgtest.New(t))
	p := livePast(db, revisions)
	check := func(from int) {
		for n := from; n <= revisions; n++ {
			require.Empty(t, cmp.Diff(p.states[n], db.state("mesh.as_of($1::bigint)", n)), "as of revision %d", n)
			if n > 0 {
				require.Equal(t, p.states[n], db.state("mesh.as_of($1::timestamptz)", p.times[n]), "as of the time of revision %d", n)
			}
			if n > from {
				require.Equal(t, p.states[n-1], db.state("mesh.as_of($1::timestamptz - interval '1 microsecond')", p.times[n]), "just before revision %d", n)
			}
		}
	}
	check(0)
	db.Exec("BEGIN; DELETE FROM mesh.resources WHERE name < 'vs-3'; UPDATE mesh.resources SET spec = spec || '{\"hosts\": [\"new\"]}'")
	db.Put("brand-new", "a")
	check(revisions - 5)
	db.Exec("ROLLBACK")
	require.Equal(t, int64(pruned), value[int64](db, "SELECT mesh.prune($1)", pruned))
	check(pruned)
}

func TestFieldsThatDiffer(t *testing.T) {
	t.Parallel()
	db := connect(t, pgtest.New(t))
	// What an EnvoyFilter merges may be anything.
	const put = `INSERT INTO mesh.resources (kind, name, spec) VALUES ('EnvoyFilter', 'f', jsonb_build_object('configPatches', jsonb_build_array(
		jsonb_build_object('applyTo', 'CLUSTER', 'match', '{"context": "ANY"}'::jsonb, 'patch', jsonb_build_object('operation', 'MERGE', 'value', jsonb_build_object('x', $1::jsonb))))))
		ON CONFLICT (kind, api_group, namespace, name) DO UPDATE SET spec = excluded.spec`
	for _, test := range []struct {
		before, after string
		want          []string
	}{
		{`[]`, `[]`, nil},
		{`["a"]`, `["b"]`, []string{`~ x[0]: "a" -> "b"`}},
		{`["a", "b"]`, `["n", "a", "b"]`, []string{`+ x[0]: "n"`}},
		{`["a", "b", "c"]`, `["a", "c"]`, []string{`- x[1]: "b"`}},
		{`["a", "b"]`, `["a", "b", "c", "d"]`, []string{`+ x[2]: "c"`, `+ x[3]: "d"`}},
		{`["a", "b", "c"]`, `["a", "x", "y", "c"]`, []string{`~ x[1]: "b" -> "x"`, `+ x[2]: "y"`}},
		{`["a", "b", "c", "d", "e"]`, `["a", "x", "d", "e"]`, []string{`~ x[1]: "b" -> "x"`, `- x[2]: "c"`}},
		{`["a", "a"]`, `["a"]`, []string{`- x[1]: "a"`}},
		{`[]`, `[null, 1]`, []string{`+ x[0]: null`, `+ x[1]: 1`}},
		{`[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]`, `[10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0]`, []string{
			"~ x[0]: 0 -> 10", "~ x[1]: 1 -> 9", "~ x[2]: 2 -> 8", "~ x[3]: 3 -> 7", "~ x[4]: 4 -> 6",
			"~ x[6]: 6 -> 4", "~ x[7]: 7 -> 3", "~ x[8]: 8 -> 2", "~ x[9]: 9 -> 1", "~ x[10]: 10 -> 0",
		}},
		{`[{"n": 1, "m": [1, 2]}]`, `[{"n": 2, "m": [2], "k": {}}]`, []string{`+ x[0].k: {}`, `- x[0].m[0]: 1`, `~ x[0].n: 1 -> 2`}},
		{`{"a": {"b": 1}, "c d": null}`, `{"a": [], "e": false}`, []string{`~ x.a: {"b": 1} -> []`, `- x["c d"]: null`, `+ x.e: false`}},
		{`{"a": {}, "bb": 1, "B": 1}`, `{"a": {"c": {"d": []}}, "bb": 2, "B": 2}`, []string{`~ x.B: 1 -> 2`, `+ x.a.c: {"d": []}`, `~ x.bb: 1 -> 2`}},
		{`{"a": null}`, `{"a": {"b": null}}`, []string{`~ x.a: null -> {"b": null}`}},
		{`{"a": [1, {"b": 1}]}`, `{"a": [1, {"b": 1.0}]}`, nil},
	} {
		db.Exec(put, test.before)
		from := value[int64](db, "SELECT mesh.newest_revision()")
		db.Exec(put, test.after)
		var got []string
		for _, line := range collect[string](db, "SELECT diff FROM mesh.diff_text($1::bigint) OFFSET 1", from) {
			got = append(got, strings.Replace(strings.TrimSpace(line), "spec.configPatches[0].patch.value.", "", 1))
		}
		require.Equal(t, test.want, got, "%s to %s", test.before, test.after)
	}
}

func TestDiff(t *testing.T) {
	t.Parallel()
	db := connect(t, pgtest.New(t))
	db.Put("kept", "a")
	db.Put("gone", "a")
	db.Exec("BEGIN")
	db.Exec(`UPDATE mesh.resources SET spec = jsonb_set(spec, '{http,0,timeout}', '"5s"'), labels = '{"app.kubernetes.io/name": "x"}' WHERE name = 'kept'`)
	db.Exec("DELETE FROM mesh.resources WHERE name = 'gone'")
	db.Put("new", "b")
	db.Exec("COMMIT")
	db.Put("gone", "a")
	require.Equal(t, []string{
		"delete VirtualService default/gone",
		"update VirtualService default/kept",
		`  + metadata.labels["app.kubernetes.io/name"]: "x"`,
		`  + spec.http[0].timeout: "5s"`,
		"create VirtualService default/new",
	}, collect[string](db, "SELECT diff FROM mesh.diff_text(2, 3)"))
	require.Equal(t, []string{"kept", "kept", "new"}, collect[string](db, "SELECT name FROM mesh.diff(2)"), "what went and came back is as it was")
	require.Equal(t, []string{"create VirtualService default/gone"}, collect[string](db, "SELECT * FROM mesh.diff_text(3)"))
	require.Empty(t, collect[string](db, "SELECT name FROM mesh.diff(3, 3)"))
	require.Equal(t, virtualServiceDocument("b"), value[string](db, "SELECT after::text FROM mesh.diff(2) WHERE operation = 'create' AND path = ''"))
	for _, pair := range [][2]int{{0, 4}, {1, 3}, {2, 4}, {3, 4}} {
		inverse := `SELECT row(kind, namespace, name, CASE operation WHEN 'create' THEN 'delete' WHEN 'delete' THEN 'create' ELSE operation END, path, after, before)::text FROM mesh.diff($2::bigint, $1::bigint)`
		require.Equal(t, collect[string](db, "SELECT row(kind, namespace, name, operation, path, before, after)::text FROM mesh.diff($1::bigint, $2::bigint)", pair[0], pair[1]),
			collect[string](db, inverse, pair[0], pair[1]))
	}
	require.Equal(t, value[int](db, "SELECT count(*) FROM mesh.diff(1)"),
		value[int](db, "SELECT count(*) FROM mesh.diff((SELECT time FROM mesh.revisions WHERE revision = 1))"))
}

func virtualServiceDocument(host string) string {
	return fmt.Sprintf(`{"spec": {"http": [{"route": [{"destination": {"host": "%s"}}]}], "hosts": ["%[1]s"]}, "labels": {}, "annotations": {}}`, host)
}

// content is what people have written, without what is set at commit.
func content(states map[string]string) map[string]string {
	stripped := map[string]string{}
	for key, row := range states {
		fields := strings.Split(row, ",")
		stripped[key] = strings.Join(fields[:len(fields)-4], ",")
	}
	return stripped
}

func TestRestore(t *testing.T) {
	t.Parallel()
	const revisions = 30
	db := connect(t, pgtest.New(t))
	p := livePast(db, revisions)
	for i, n := range []int{0, 7, revisions, 19, 20} {
		changed := value[int](db, "SELECT count(*) FROM mesh.restore($1::bigint)", n)
		require.Equal(t, content(p.states[n]), content(db.state("mesh.readable_resources")))
		require.Equal(t, revisions+i+1, int(db.Newest()), "one revision")
		require.Equal(t, fmt.Sprintf("%d restore to revision %d", changed, n), value[string](db, "SELECT size || ' ' || message FROM mesh.revisions ORDER BY revision DESC LIMIT 1"))
	}
	newest := db.Newest()
	require.Zero(t, value[int](db, "SELECT count(*) FROM mesh.restore(20)"), "it is so already")
	require.Equal(t, newest, db.Newest())

	db.Exec("SELECT * FROM mesh.restore($1::timestamptz)", p.times[9])
	require.Equal(t, content(p.states[9]), content(db.state("mesh.readable_resources")))
	require.Contains(t, value[string](db, "SELECT message FROM mesh.revisions ORDER BY revision DESC LIMIT 1"), "restore to revision 9, of 20")
}

func TestRestoreOfSome(t *testing.T) {
	t.Parallel()
	db := connect(t, pgtest.New(t))
	insert := `INSERT INTO mesh.resources (kind, namespace, name, spec) VALUES ('VirtualService', $1, $2, '{"hosts": ["a"], "http": [{"redirect": {"uri": "/"}}]}')`
	db.Exec(insert, "one", "x")
	db.Exec(insert, "one", "y")
	db.Exec(insert, "two", "x")
	db.Exec(`UPDATE mesh.resources SET spec = '{"hosts": ["b"], "http": [{"redirect": {"uri": "/"}}]}'`)
	db.Exec(`INSERT INTO mesh.resources (kind, namespace, name, spec) VALUES ('DestinationRule', 'one', 'x', '{"host": "a"}')`)
	restored := func(filter string) []string {
		db.Exec("BEGIN")
		defer db.Exec("ROLLBACK")
		return collect[string](db, "SELECT concat(operation, ' ', kind, ' ', namespace, '/', name) FROM mesh.restore(3, "+filter+")")
	}
	require.Equal(t, []string{"update VirtualService one/x", "update VirtualService one/y"}, restored("kinds => '{VirtualService}', namespaces => '{one}'"))
	require.Equal(t, []string{"delete DestinationRule one/x", "update VirtualService one/x", "update VirtualService two/x"}, restored("names => '{x}'"))
	require.Empty(t, restored("names => '{}'"))
	require.Equal(t, `did you mean "VirtualService"?`, db.Refused("SELECT * FROM mesh.restore(3, kinds => '{VirtualServise}')").Hint)

	db.Exec("BEGIN; SELECT mesh.begin_change('the good old days')")
	db.Exec("SELECT * FROM mesh.restore(3, namespaces => '{two}')")
	db.Exec("COMMIT")
	require.Equal(t, "the good old days", value[string](db, "SELECT message FROM mesh.revisions ORDER BY revision DESC LIMIT 1"))
}

// A spec may be old enough to break a rule of today.
func TestRestoreOfWhatIsNotValidAnyMore(t *testing.T) {
	t.Parallel()
	db := connect(t, pgtest.New(t))
	db.Put("x", "a")
	db.Put("y", "a")
	db.Exec(`ALTER TABLE mesh.resources DISABLE TRIGGER USER; UPDATE mesh.resources SET spec = '{"hosts": ["a"], "htp": []}' WHERE name = 'x'; ALTER TABLE mesh.resources ENABLE TRIGGER USER`)
	db.Exec(`UPDATE mesh.resources SET spec = '{"hosts": ["b"], "http": [{"redirect": {"uri": "/"}}]}'`)
	err := db.Refused("SELECT * FROM mesh.restore(2)")
	require.Equal(t, "23514", err.Code)
	require.Equal(t, `VirtualService default/x: spec.htp: unknown field "htp"`, err.Message)
	require.Equal(t, int64(3), db.Newest(), "all or nothing")
	db.Exec("SELECT * FROM mesh.restore(2, names => '{y}')")
	require.Equal(t, int64(4), db.Newest())
}

func TestBlame(t *testing.T) {
	t.Parallel()
	db := connect(t, pgtest.New(t))
	change := func(message, sql string) {
		db.Exec("BEGIN")
		db.Exec("SELECT mesh.begin_change($1)", message)
		db.Exec(sql)
		db.Exec("COMMIT")
	}
	change("first", `INSERT INTO mesh.resources (kind, name, spec) VALUES ('VirtualService', 'x', '{"hosts": ["a", "b"],
		"http": [{"name": "old", "route": [{"destination": {"host": "a"}, "weight": 90}, {"destination": {"host": "b"}, "weight": 10}]}]}')`)
	change("weights", `UPDATE mesh.resources SET spec = jsonb_set(jsonb_set(spec, '{http,0,route,0,weight}', '80'), '{http,0,route,1,weight}', '20')`)
	change("a route before", `UPDATE mesh.resources SET spec = jsonb_insert(spec, '{http,0}', '{"name": "new", "route": [{"destination": {"host": "c"}}]}')`)
	change("weights again", `UPDATE mesh.resources SET spec = jsonb_set(spec, '{http,1,route,1,weight}', '30'), labels = '{"app": "x"}'`)
	blame := func() []string {
		return collect[string](db, "SELECT concat_ws(' ', path, value, revision, message) FROM mesh.blame('VirtualService', 'default', 'x')")
	}
	require.Equal(t, []string{
		`metadata.labels.app "x" 4 weights again`,
		`spec.hosts[0] "a" 1 first`,
		`spec.hosts[1] "b" 1 first`,
		`spec.http[0].name "new" 3 a route before`,
		`spec.http[0].route[0].destination.host "c" 3 a route before`,
		`spec.http[1].name "old" 1 first`,
		`spec.http[1].route[0].destination.host "a" 1 first`,
		`spec.http[1].route[0].weight 80 2 weights`,
		`spec.http[1].route[1].destination.host "b" 1 first`,
		`spec.http[1].route[1].weight 30 4 weights again`,
	}, blame())
	require.Equal(t, value[string](db, "SELECT author FROM mesh.revisions WHERE revision = 2"), value[string](db, "SELECT author FROM mesh.blame('VirtualService', 'default', 'x') WHERE revision = 2"))

	db.Exec("SELECT mesh.prune(2)")
	require.Equal(t, `spec.hosts[0] "a" before revision 3, where the history begins`, blame()[1])
	require.Equal(t, `spec.http[0].name "new" 3 a route before`, blame()[3])
	db.Exec("DELETE FROM mesh.resources")
	require.Empty(t, blame())
	change("anew", `INSERT INTO mesh.resources (kind, name, spec) VALUES ('VirtualService', 'x', '{"hosts": ["a"], "http": [{"redirect": {"uri": "/"}}]}')`)
	require.Equal(t, []string{`spec.hosts[0] "a" 6 anew`, `spec.http[0].redirect.uri "/" 6 anew`}, blame())

	require.Equal(t, `did you mean "VirtualService"?`, db.Refused("SELECT * FROM mesh.blame('VirtualServic', 'default', 'x')").Hint)
	require.Contains(t, db.Refused("SELECT * FROM mesh.blame('Gateway', 'default', 'x')").Hint, "set api_group")
	require.Equal(t, "MS010", db.Refused("SELECT path FROM mesh.blame('Gateway', 'default', 'x', 'networking.istio.io')").Code)
}

func TestBlameOfWhatTheHistoryHasNothingOf(t *testing.T) {
	t.Parallel()
	db := connect(t, pgtest.New(t))
	db.Put("x", "a")
	db.Put("y", "a")
	db.Exec("SELECT mesh.prune(1)")
	require.Equal(t, []string{"before revision 2, where the history begins"},
		collect[string](db, "SELECT DISTINCT message FROM mesh.blame('VirtualService', 'default', 'x') WHERE revision IS NULL AND author IS NULL"))
}

func TestBeginChange(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	db, notices := connectNoticing(t, url)
	db.Exec("BEGIN")
	require.Equal(t, int64(0), value[int64](db, "SELECT mesh.begin_change('one')"))
	db.Put("x", "a")
	require.Equal(t, int64(0), value[int64](db, "SELECT mesh.begin_change('two')"), "the last name counts")
	db.Exec("COMMIT")
	require.Equal(t, "two", value[string](db, "SELECT message FROM mesh.revisions"))
	db.Put("x", "b")
	require.Empty(t, value[string](db, "SELECT message FROM mesh.revisions WHERE revision = 2"), "a name is for one transaction")
	require.NotContains(t, fmt.Sprint(*notices), "is none")

	db.Exec("SELECT mesh.begin_change('nothing')")
	require.Contains(t, *notices, `WARNING: the change "nothing" is none: this transaction changes no resource`)
	require.Zero(t, value[int](db, "SELECT count(*) FROM mesh_internal.transactions WHERE revision IS NULL"))
	require.Equal(t, "22023", db.Refused("SELECT mesh.begin_change(' ')").Code)
	require.Equal(t, int64(2), db.Newest())
}

// The filters that people use must not read the whole history.
func TestHistoryIsFoundByIndexes(t *testing.T) {
	t.Parallel()
	db := connect(t, pgtest.New(t))
	db.Exec(`INSERT INTO mesh.resources (kind, namespace, name, spec)
		SELECT 'VirtualService', 'ns-' || n % 20, 'vs-' || n, jsonb_build_object('hosts', jsonb_build_array('h' || n), 'http', '[{"redirect": {"uri": "/"}}]'::jsonb)
		FROM generate_series(1, 400) n`)
	for n := range 60 {
		db.Put("x", fmt.Sprint("h", n))
	}
	db.Exec("ANALYZE mesh_internal.changes, mesh_internal.transactions, mesh.resources")
	for _, query := range []string{
		"SELECT * FROM mesh.history WHERE kind = 'VirtualService' AND namespace = 'ns-1' AND name = 'vs-1'",
		"SELECT * FROM mesh.history WHERE namespace = 'ns-1' AND name = 'vs-1'",
		"SELECT * FROM mesh.history WHERE namespace = 'ns-1'",
		"SELECT * FROM mesh.history WHERE revision = 17",
	} {
		plan := strings.Join(collect[string](db, "EXPLAIN "+query), "\n")
		require.NotContains(t, plan, "Seq Scan on changes", query+"\n"+plan)
		require.NotContains(t, plan, "Seq Scan on resources", query+"\n"+plan)
	}
}

// The Go API explains what the history refuses.
func TestHistoryErrorsInGo(t *testing.T) {
	t.Parallel()
	s, url := open(t)
	connect(t, url).Put("x", "a")
	chores, err := housekeeping.New(s).Chores(t.Context())
	require.NoError(t, err)
	require.Equal(t, housekeeping.Chores{Oldest: 1, Inserted: chores.Inserted}, chores)
	none, err := housekeeping.New(s).RevertOverdue(t.Context())
	require.NoError(t, err)
	require.Nil(t, none)
}

// connectNoticing is connect that keeps what the server tells beside its answers.
func connectNoticing(t *testing.T, url string) (session, *[]string) {
	t.Helper()
	notices := &[]string{}
	return session{storetest.ConnectHearing(t, url, func(n *pgconn.Notice) { *notices = append(*notices, n.Severity+": "+n.Message) })}, notices
}

// Functions take for a kind what the command line takes, and name few others if it is none.
func TestKindsInOtherWords(t *testing.T) {
	t.Parallel()
	db := connect(t, pgtest.New(t))
	db.Put("x", "a")
	db.Put("x", "b")
	db.Exec(`INSERT INTO mesh.resources (api_group, kind, name, spec) VALUES ('gateway.networking.k8s.io', 'Gateway', 'g', '{"gatewayClassName": "c", "listeners": [{"name": "l", "port": 80, "protocol": "HTTP"}]}')`)
	for _, word := range []string{"vs", "VS", "virtualservice", "virtualservices", "VirtualService", "VIRTUALSERVICES", "virtualservices.networking.istio.io"} {
		for sql, want := range map[string]int{
			"SELECT count(*) FROM mesh.as_of(1, kinds => ARRAY[$1, 'se'])": 1, "SELECT count(DISTINCT name) FROM mesh.diff(1, kinds => ARRAY[$1])": 1,
			"SELECT count(*) FROM mesh.as_of(now(), ARRAY[$1])": 1, "SELECT count(DISTINCT path) FROM mesh.blame($1, 'default', 'x') WHERE path = 'spec.hosts[0]'": 1,
			"SELECT count(*) FROM mesh.check($1, '{\"hosts\": 5}')": 1, "SELECT count(*) FROM mesh.status_of($1, 'default', 'x')": 1,
			"SELECT count(*) FROM mesh.restore(2, ARRAY[$1])": 0,
		} {
			require.Equal(t, want, value[int](db, sql, word), "%s: %s", word, sql)
		}
	}
	require.Equal(t, 1, value[int](db, "SELECT count(*) FROM mesh.as_of(3, kinds => '{gateways}')"))
	require.NotZero(t, value[int](db, "SELECT count(*) FROM mesh.blame('gtw', 'default', 'g')"), "a word of one group alone")
	require.NotZero(t, value[int](db, "SELECT count(*) FROM mesh.blame('gateways', 'default', 'g', 'gateway.networking.k8s.io')"))
	require.Contains(t, db.Refused("SELECT * FROM mesh.blame('gateways', 'default', 'g')").Hint, "set api_group to")
	require.Equal(t, "write Gateway, and look at the column api_group", db.Refused("SELECT * FROM mesh.as_of(1, kinds => '{gateways.networking.istio.io}')").Hint)
	db.Exec("INSERT INTO mesh.readers (identity, kinds) VALUES ('*', '{vs,HTTPROUTES,gateways.networking.istio.io}')")
	require.Equal(t, []string{"Gateway.networking.istio.io", "HTTPRoute", "VirtualService"}, value[[]string](db, "SELECT kinds FROM mesh.readers"))

	for word, hint := range map[string]string{
		"vz": `did you mean "vs"?`, "virtualservises": `did you mean "VirtualService"?`, "Service": "the nearest are ServiceEntry, VirtualService, Sidecar; mesh.kinds has all",
	} {
		require.Equal(t, hint, db.Refused("SELECT * FROM mesh.as_of(1, kinds => ARRAY[$1])", word).Hint)
		require.Equal(t, hint, db.Refused("SELECT * FROM mesh.blame($1, 'default', 'x')", word).Hint)
		require.Equal(t, hint, db.Refused("INSERT INTO mesh.resources (kind, name, spec) VALUES ($1, 'y', '{}')", word).Hint)
		require.Equal(t, hint, db.Refused("INSERT INTO mesh.readers (identity, kinds) VALUES ('anonymous', ARRAY[$1])", word).Hint)
	}
}
