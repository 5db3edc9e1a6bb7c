package store_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
)

// shop is what most of these tests start from.
const shop = `
	INSERT INTO mesh.virtual_services (name, hosts, http) VALUES ('reviews', '{reviews.shop}', '[
		{"name": "testers", "match": [{"uri": {"prefix": "/test"}}], "route": [{"destination": {"host": "reviews.shop", "subset": "v2"}}]},
		{"timeout": "2s", "route": [{"destination": {"host": "reviews.shop", "subset": "v1"}, "weight": 100}, {"destination": {"host": "reviews.shop", "subset": "v2"}, "weight": 0}]}]');
	INSERT INTO mesh.destination_rules (name, host, subsets) VALUES ('reviews', 'reviews.shop', '[{"name": "v1", "labels": {"version": "v1"}}, {"name": "v2", "labels": {"version": "v2"}}]')`

func newShop(t *testing.T) (session, string) {
	t.Helper()
	url := pgtest.New(t)
	db := connect(t, url)
	db.Exec(shop)
	return db, url
}

// routes tells the names of the routes, and subsets those of the subsets, in order.
func (s session) routes() string {
	s.T.Helper()
	return strings.Join(collect[string](s, "SELECT coalesce(name, '-') FROM mesh.routes ORDER BY virtual_service, protocol, position"), " ")
}

func (s session) subsets() string {
	s.T.Helper()
	return strings.Join(collect[string](s, "SELECT name FROM mesh.subsets ORDER BY destination_rule, position"), " ")
}

func (s session) weights() string {
	s.T.Helper()
	return strings.Join(collect[string](s, "SELECT concat(route_position, '.', position, '=', weight) FROM mesh.route_destinations ORDER BY route_position, position"), " ")
}

func TestEachPartHasARow(t *testing.T) {
	t.Parallel()
	db, _ := newShop(t)
	require.Equal(t, []string{
		`http 0 testers [{"uri": {"prefix": "/test"}}] 0 reviews.shop v2 - -`,
		`http 1 - - 0 reviews.shop v1 - 100`,
		`http 1 - - 1 reviews.shop v2 - 0`,
	}, collect[string](db, `SELECT concat_ws(' ', protocol, route_position, coalesce(route, '-'), coalesce(match::text, '-'), position, host, subset, coalesce(port::text, '-'), coalesce(weight::text, '-'))
		FROM mesh.route_destinations`))
	db.Exec(`INSERT INTO mesh.virtual_services (name, hosts, tcp, tls) VALUES ('db', '{db.shop}', '[{"route": [{"destination": {"host": "db.shop", "port": {"number": 5432}}}]}]',
		'[{"match": [{"sniHosts": ["db.shop"]}], "route": [{"destination": {"host": "db.shop"}}]}]')`)
	require.Equal(t, []string{"tcp 5432", "tls"}, collect[string](db, "SELECT concat_ws(' ', protocol, port) FROM mesh.route_destinations WHERE virtual_service = 'db' ORDER BY 1"))
	db.Exec(`INSERT INTO mesh.service_entries (name, hosts, resolution, ports, endpoints) VALUES ('reviews', '{reviews.shop}', 'STATIC',
		'[{"number": 80, "name": "http", "protocol": "HTTP", "targetPort": 8080}]', '[{"address": "10.0.0.1", "labels": {"a": "b"}, "weight": 5}]')`)
	require.Equal(t, `0 80 HTTP http 8080 reviews {"name": "http", "number": 80, "protocol": "HTTP", "targetPort": 8080}`,
		value[string](db, "SELECT concat_ws(' ', position, number, protocol, name, target_port, service_entry, spec) FROM mesh.service_ports"))
	require.Equal(t, `0 10.0.0.1 {"a": "b"} 5`, value[string](db, "SELECT concat_ws(' ', position, address, labels, weight) FROM mesh.service_endpoints"))
	db.Exec(`INSERT INTO mesh.gateways (name, servers) VALUES ('edge', '[{"port": {"number": 80, "name": "http", "protocol": "HTTP"}, "hosts": ["a.example.com", "b.example.com"]}]')`)
	require.Equal(t, `0 80 HTTP http {a.example.com,b.example.com}`, value[string](db, "SELECT concat_ws(' ', position, port, protocol, port_name, hosts) FROM mesh.gateway_servers"))
	db.Exec("UPDATE mesh.gateway_servers SET port = 8080, hosts = array_remove(hosts, 'b.example.com') WHERE gateway = 'edge'")
	require.JSONEq(t, `{"servers": [{"port": {"name": "http", "number": 8080, "protocol": "HTTP"}, "hosts": ["a.example.com"]}]}`, db.spec("gateways", "edge"))
}

// However many parts a statement changes, a resource is written and judged once, by what becomes of
// it in the end.
func TestAStatementWritesAResourceOnce(t *testing.T) {
	t.Parallel()
	db, _ := newShop(t)
	require.Equal(t, "UPDATE 2", db.affected("UPDATE mesh.route_destinations SET weight = CASE subset WHEN 'v1' THEN 0 ELSE 100 END WHERE route IS NULL"))
	require.Equal(t, "0.0= 1.0=0 1.1=100", db.weights())
	db.Exec("UPDATE mesh.subsets SET name = CASE name WHEN 'v1' THEN 'v2' ELSE 'v1' END")
	require.Equal(t, "v2 v1", db.subsets())
	require.Equal(t, []int64{2, 2}, collect[int64](db, "SELECT generation FROM mesh.resources"))

	// Parts of several kinds in one statement are several writes, but of the same revision.
	revision := value[int64](db, "SELECT max(revision) FROM mesh.revisions")
	db.Exec(`WITH moved AS (UPDATE mesh.routes SET position = 1 - position), shifted AS (UPDATE mesh.route_destinations SET weight = 50 WHERE weight IS NOT NULL)
		UPDATE mesh.subsets SET labels = '{"version": "v3"}' WHERE name = 'v2'`)
	require.Equal(t, "0.0=50 0.1=50 1.0=", db.weights())
	require.Equal(t, revision+1, value[int64](db, "SELECT max(revision) FROM mesh.revisions"))

	db.Exec(`INSERT INTO mesh.virtual_services (name, hosts, spec) SELECT 'copy' || i, hosts, spec FROM mesh.virtual_services, generate_series(1, 50) i`)
	require.Equal(t, "UPDATE 153", db.affected("UPDATE mesh.route_destinations SET weight = 1"))
	require.Equal(t, "DELETE 51", db.affected("DELETE FROM mesh.route_destinations WHERE subset = 'v2' AND route IS NULL"))
	require.Zero(t, value[int](db, "SELECT count(*) FROM mesh_internal.part_edits"))
}

func TestPartsComeGoAndMove(t *testing.T) {
	t.Parallel()
	db, _ := newShop(t)
	require.Equal(t, []string{"2 c", "0 a", "4 d"}, collect[string](db, `INSERT INTO mesh.subsets (destination_rule, name, position)
		VALUES ('reviews', 'c', NULL), ('reviews', 'a', 0), ('reviews', 'd', 5000000000) RETURNING position || ' ' || name`))
	require.Equal(t, "a v1 v2 c d", strings.ReplaceAll(db.subsets(), "d c", "c d"))
	db.Exec("UPDATE mesh.subsets SET position = 0 WHERE name = 'v2'")
	require.True(t, strings.HasPrefix(db.subsets(), "v2 a v1 "))
	require.Equal(t, "DELETE 3", db.affected("DELETE FROM mesh.subsets WHERE name IN ('a', 'c', 'd')"))
	require.Equal(t, "v2 v1", db.subsets())
	require.Equal(t, "DELETE 2", db.affected("DELETE FROM mesh.subsets"))
	require.JSONEq(t, `{"host": "reviews.shop"}`, db.spec("destination_rules", "reviews"), "an empty list is no list")

	db.Exec("UPDATE mesh.routes SET position = 1 - position")
	require.Equal(t, "- testers", db.routes())
	require.Equal(t, "1 2", value[string](db, `INSERT INTO mesh.route_destinations (virtual_service, route, host, port, weight) VALUES ('reviews', 'testers', 'x.shop', 80, 1)
		RETURNING route_position || ' ' || (position + 1)`))
	require.JSONEq(t, `{"weight": 1, "destination": {"host": "x.shop", "port": {"number": 80}}}`, value[string](db, "SELECT spec::text FROM mesh.route_destinations WHERE port = 80"))
	db.Exec("UPDATE mesh.route_destinations SET port = NULL WHERE port = 80")
	require.JSONEq(t, `{"weight": 1, "destination": {"host": "x.shop"}}`, value[string](db, "SELECT spec::text FROM mesh.route_destinations WHERE host = 'x.shop'"))

	// To another list, and to another resource.
	db.Exec("UPDATE mesh.route_destinations SET route_position = 0, position = 0 WHERE host = 'x.shop'")
	require.Equal(t, "0.0=1 0.1=100 0.2=0 1.0=", db.weights())
	db.Exec("INSERT INTO mesh.virtual_services (name, hosts, http) VALUES ('other', '{other.shop}', '[{\"name\": \"everyone\", \"route\": [{\"destination\": {\"host\": \"other.shop\"}}]}]')")
	db.Exec("UPDATE mesh.route_destinations SET virtual_service = 'other' WHERE host = 'x.shop'")
	require.Equal(t, "other.shop x.shop", strings.Join(collect[string](db, "SELECT host FROM mesh.route_destinations WHERE virtual_service = 'other' ORDER BY position DESC"), " "))
	db.Exec(`INSERT INTO mesh.destination_rules (name, host, subsets) VALUES ('a', 'a.shop', '[{"name": "v1"}]'), ('b', 'b.shop', NULL)`)
	db.Exec("UPDATE mesh.subsets SET destination_rule = 'b', name = 'v9'")
	require.JSONEq(t, `{"host": "b.shop", "subsets": [{"name": "v9"}]}`, db.spec("destination_rules", "b"))
	require.JSONEq(t, `{"host": "a.shop"}`, db.spec("destination_rules", "a"))
	require.Equal(t, `v8 {"version": "v8"}`, value[string](db, `UPDATE mesh.subsets SET spec = '{"name": "v7", "labels": {"version": "v8"}}', name = 'v8' RETURNING concat_ws(' ', name, labels)`))
}

func TestViewsOfPartsRefuseInvalidChanges(t *testing.T) {
	t.Parallel()
	db, _ := newShop(t)
	before := value[string](db, "SELECT jsonb_agg(spec ORDER BY kind)::text FROM mesh.resources")
	for _, c := range []struct{ sql, code, says string }{
		{"INSERT INTO mesh.subsets (destination_rule, name) VALUES ('revews', 'v3')", "23503", "there is no DestinationRule default/revews"},
		{"INSERT INTO mesh.subsets (name) VALUES ('v3')", "23502", "the column destination_rule of mesh.subsets must not be null"},
		{"INSERT INTO mesh.route_destinations (virtual_service, host) VALUES ('reviews', 'a')", "23502", "it is not clear which route"},
		{"INSERT INTO mesh.route_destinations (virtual_service, route, host) VALUES ('reviews', 'x', 'a')", "23503", `there is no route "x" in VirtualService default/reviews`},
		{"INSERT INTO mesh.route_destinations (virtual_service, route_position, host) VALUES ('reviews', 7, 'a')", "23503", "has no route at spec.http[7]"},
		{"UPDATE mesh.subsets SET destination_rule = 'x' WHERE name = 'v1'", "23503", "there is no DestinationRule default/x"},
		{"UPDATE mesh.route_destinations SET route = 'x' WHERE weight = 100", "MS003", "the column route of mesh.route_destinations cannot be changed"},
		{"UPDATE mesh.subsets SET revision = 7", "MS003", "the column revision of mesh.subsets cannot be changed"},
		{"UPDATE mesh.route_destinations SET weight = -5 WHERE weight = 0", "23514", "spec.http[1].route[1].weight: must be between 0 and 2147483647, got -5"},
		{"UPDATE mesh.subsets SET name = NULL WHERE name = 'v2'", "23514", "spec.subsets[1].name: required field is missing"},
		{`INSERT INTO mesh.routes (virtual_service, protocol, route) VALUES ('reviews', 'udp', '[]')`, "23514", `unknown field "udp"`},
	} {
		refused := db.Refused(c.sql)
		require.Equal(t, c.code, refused.Code, c.sql)
		require.Contains(t, refused.Message, c.says, c.sql)
	}
	require.Equal(t, `did you mean "testers"?`, db.Refused("INSERT INTO mesh.route_destinations (virtual_service, route, host) VALUES ('reviews', 'tsters', 'a')").Hint)
	// What a statement that failed has noted is gone with it.
	db.Exec("BEGIN; SAVEPOINT s")
	db.Refused("UPDATE mesh.subsets SET name = 'x' || (1 / (2 - position - 1))")
	db.Exec("ROLLBACK TO s; UPDATE mesh.route_destinations SET weight = weight; COMMIT")
	require.Equal(t, before, value[string](db, "SELECT jsonb_agg(spec ORDER BY kind)::text FROM mesh.resources"))
	require.Zero(t, value[int](db, "SELECT count(*) FROM mesh_internal.part_edits"))
}

func TestConcurrentWritersOfParts(t *testing.T) {
	t.Parallel()
	observer, url := newShop(t)
	first, second := connect(t, url), connect(t, url)
	for _, c := range []struct{ name, first, second, code, left string }{
		{"two destinations of a route", "UPDATE mesh.route_destinations SET weight = 80 WHERE weight = 100", "UPDATE mesh.route_destinations SET weight = 20 WHERE weight = 0", "<nil>", "0.0= 1.0=80 1.1=20"},
		{
			"a route before and a destination", `INSERT INTO mesh.routes (virtual_service, position, name, route) VALUES ('reviews', 1, 'new',
			'[{"destination": {"host": "reviews.shop", "subset": "v1"}, "weight": 7}, {"destination": {"host": "reviews.shop", "subset": "v2"}, "weight": 0}]')`,
			"UPDATE mesh.route_destinations SET weight = 20 WHERE weight = 0", "<nil>", "0.0= 1.0=7 1.1=0 2.0=100 2.1=20",
		},
		{"routes that change places and a destination", "UPDATE mesh.routes SET position = 1 - position", "UPDATE mesh.route_destinations SET weight = 20 WHERE weight = 0", "<nil>", "0.0=100 0.1=20 1.0="},
		{"the timeout of a route and a destination", "UPDATE mesh.routes SET timeout = '5s' WHERE name IS NULL", "UPDATE mesh.route_destinations SET weight = 20 WHERE weight = 0", "<nil>", "0.0= 1.0=100 1.1=20"},
		{"a destination before", "DELETE FROM mesh.route_destinations WHERE weight = 100", "UPDATE mesh.route_destinations SET weight = 20 WHERE weight = 0", "<nil>", "0.0= 1.0=20"},
		{"the timeout of a route that changes places", "UPDATE mesh.routes SET timeout = '5s' WHERE name IS NULL", "UPDATE mesh.routes SET position = 0 WHERE name IS NULL", "<nil>", "0.0=100 0.1=0 1.0="},
		{"two columns of a destination", "UPDATE mesh.route_destinations SET weight = 80 WHERE weight = 100", `UPDATE mesh.route_destinations SET headers = '{}' WHERE weight = 100`, "<nil>", "0.0= 1.0=80 1.1=0"},
		{
			"two at the end", "INSERT INTO mesh.route_destinations (virtual_service, route, host, weight) VALUES ('reviews', 'testers', 'a.shop', 1)",
			"INSERT INTO mesh.route_destinations (virtual_service, route, host, weight) VALUES ('reviews', 'testers', 'b.shop', 2)", "<nil>", "0.0= 0.1=1 0.2=2 1.0=100 1.1=0",
		},
		{"the same column", "UPDATE mesh.route_destinations SET weight = 80 WHERE weight = 100", "UPDATE mesh.route_destinations SET weight = weight + 1 WHERE weight = 100", "40001", "0.0= 1.0=80 1.1=0"},
		{"delete what has changed", "UPDATE mesh.route_destinations SET weight = 80 WHERE weight = 100", "DELETE FROM mesh.route_destinations WHERE weight = 100", "40001", "0.0= 1.0=80 1.1=0"},
		{"change what has gone", "DELETE FROM mesh.route_destinations WHERE weight = 100", "UPDATE mesh.route_destinations SET weight = 50 WHERE weight = 100", "40001", "0.0= 1.0=0"},
		{
			"a route before and a destination that goes to another route", `INSERT INTO mesh.routes (virtual_service, position, name, route) VALUES ('reviews', 0, 'new', '[{"destination": {"host": "reviews.shop"}}]')`,
			"UPDATE mesh.route_destinations SET route_position = 0 WHERE weight = 0", "40001", "0.0= 1.0= 2.0=100 2.1=0",
		},
		{"the route has gone", "DELETE FROM mesh.routes WHERE name IS NULL", "UPDATE mesh.route_destinations SET weight = 20 WHERE weight = 0", "40001", "0.0="},
		{"everything has gone", "DELETE FROM mesh.virtual_services", "UPDATE mesh.route_destinations SET weight = 20 WHERE weight = 0", "40001", ""},
	} {
		observer.Exec("DELETE FROM mesh.resources; " + shop)
		first.Exec("BEGIN; " + c.first)
		done := second.blocked(observer, c.second)
		first.Exec("COMMIT")
		require.Equal(t, c.code, code(<-done), c.name)
		require.Equal(t, c.left, observer.weights(), c.name)
	}
}

// What a transaction has changed itself is no conflict, also where it moved what it changes next.
func TestPartsInOneTransaction(t *testing.T) {
	t.Parallel()
	db, _ := newShop(t)
	db.Exec(`BEGIN; UPDATE mesh.routes SET position = 1 - position; UPDATE mesh.route_destinations SET weight = 20 WHERE weight = 0;
		UPDATE mesh.route_destinations SET weight = weight - 20 WHERE weight = 100; DELETE FROM mesh.routes WHERE name = 'testers'; COMMIT`)
	require.Equal(t, "0.0=80 0.1=20", db.weights())
	require.Equal(t, int64(2), value[int64](db, "SELECT generation FROM mesh.virtual_services"))
}

// kept is a kind whose routes or rules have parts, and what its views call them.
type kept struct {
	resources, resource string // the view of all, and the column of parts that names one
	holders, holder     string // the view of routes or rules, and the column of parts that names one
	parts               string
	list, field         string // the field with routes or rules, and that with their parts

	rest      map[string]any // of a route or a rule
	part      func(*rand.Rand) map[string]any
	insertion string // of the resource with its list
}

var (
	routesAndDestinations = kept{
		resources: "virtual_services", resource: "virtual_service", holders: "routes", holder: "route", parts: "route_destinations",
		list: "http", field: "route", rest: map[string]any{"timeout": "2s"},
		part: func(dice *rand.Rand) map[string]any {
			d := map[string]any{"host": "a.shop"}
			if dice.IntN(2) == 0 {
				d["subset"] = fmt.Sprint("v", dice.IntN(2))
			}
			return map[string]any{"destination": d}
		},
		insertion: "INSERT INTO mesh.virtual_services (name, hosts, http) VALUES ('x', '{a.shop}', $1)",
	}
	rulesAndBackends = kept{
		resources: "http_routes", resource: "http_route", holders: "http_route_rules", holder: "rule", parts: "http_route_backends",
		list: "rules", field: "backendRefs", rest: map[string]any{"timeouts": map[string]any{"request": "2s"}},
		part: func(dice *rand.Rand) map[string]any {
			return map[string]any{"name": fmt.Sprint("v", dice.IntN(2)), "port": float64(80)}
		},
		insertion: "INSERT INTO mesh.http_routes (name, hostnames, rules) VALUES ('x', '{a.shop}', $1)",
	}
)

// longest is how many items the Gateway API has in a list at most.
const longest = 16

// twin is a resource in memory to which the same is done as to the one in the database.
type twin struct {
	kept

	dice *rand.Rand
	all  []map[string]any
	n    int
}

// next is a route or a rule with some parts.
func (w *twin) next() map[string]any {
	w.n++
	parts := []any{}
	for range 1 + w.dice.IntN(3) {
		parts = append(parts, w.weighed())
	}
	holder := maps.Clone(w.rest)
	holder["name"], holder[w.field] = fmt.Sprint("r", w.n), parts
	return holder
}

// weighed is a part. Parts repeat themselves, so that several of a list are alike.
func (w *twin) weighed() map[string]any {
	part := w.part(w.dice)
	part["weight"] = float64(1 + w.dice.IntN(3))
	return part
}

// step does something to the twin and returns the SQL that does the same.
func (w *twin) step() string {
	h := w.dice.IntN(len(w.all))
	parts := w.all[h][w.field].([]any)
	p := w.dice.IntN(len(parts))
	at := fmt.Sprintf("WHERE %s = 'x' AND %s_position = %d AND position = %d", w.resource, w.holder, h, p)
	switch w.dice.IntN(7) {
	case 0:
		parts[p].(map[string]any)["weight"] = float64(9)
		return fmt.Sprintf("UPDATE mesh.%s SET weight = 9 %s", w.parts, at)
	case 1:
		for i := range w.all {
			for _, other := range w.all[i][w.field].([]any) {
				other.(map[string]any)["weight"] = other.(map[string]any)["weight"].(float64) + 1
			}
		}
		return fmt.Sprintf("UPDATE mesh.%s SET weight = weight + 1", w.parts)
	case 2:
		if len(parts) == longest {
			return "SELECT"
		}
		added := w.weighed()
		w.all[h][w.field] = slices.Insert(parts, p, any(added))
		return fmt.Sprintf("INSERT INTO mesh.%s (%s, %s_position, position, spec) VALUES ('x', %d, %d, '%s')", w.parts, w.resource, w.holder, h, p, jsonOf(added))
	case 3:
		if len(parts) == 1 {
			return "SELECT"
		}
		w.all[h][w.field] = slices.Delete(parts, p, p+1)
		return fmt.Sprintf("DELETE FROM mesh.%s %s", w.parts, at)
	}
	return w.stepOfHolders(h)
}

// stepOfHolders does something to the routes or rules.
func (w *twin) stepOfHolders(h int) string {
	switch w.dice.IntN(3) {
	case 0:
		if len(w.all) == longest {
			return "SELECT"
		}
		added := w.next()
		w.all = append(w.all, added)
		return fmt.Sprintf("INSERT INTO mesh.%s (%s, spec) VALUES ('x', '%s')", w.holders, w.resource, jsonOf(added))
	case 1:
		if len(w.all) == 1 {
			return "SELECT"
		}
		w.all = slices.Delete(w.all, h, h+1)
		return fmt.Sprintf("DELETE FROM mesh.%s WHERE %s = 'x' AND position = %d", w.holders, w.resource, h)
	}
	moved, to := w.all[h], w.dice.IntN(len(w.all))
	w.all = slices.Insert(slices.Delete(w.all, h, h+1), to, moved)
	return fmt.Sprintf("UPDATE mesh.%s SET position = %d WHERE name = '%s'", w.holders, to, moved["name"])
}

func jsonOf(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}

func TestAnEditOfAPartChangesNothingElse(t *testing.T) {
	t.Parallel()
	for _, of := range []kept{routesAndDestinations, rulesAndBackends} {
		t.Run(of.resources, func(t *testing.T) {
			t.Parallel()
			db := connect(t, pgtest.New(t))
			seed := rand.Uint64()
			w := &twin{kept: of, dice: rand.New(rand.NewPCG(seed, 0))}
			w.all = []map[string]any{w.next(), w.next()}
			db.Exec(of.insertion, jsonOf(w.all))
			db.Exec("SET client_min_messages = error")
			for range 150 {
				sql := w.step()
				_, err := db.Conn.Exec(context.Background(), sql)
				require.NoError(t, err, "seed %d: %s", seed, sql)
				var got []map[string]any
				require.NoError(t, json.Unmarshal([]byte(value[string](db, fmt.Sprintf("SELECT %s::text FROM mesh.%s", of.list, of.resources))), &got))
				require.Empty(t, cmp.Diff(w.all, got), "seed %d: %s", seed, sql)
			}
		})
	}
}
