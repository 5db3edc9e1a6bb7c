package store_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
)

// A driver that shows the message alone shows all that is wrong, and an ORM takes what is wrong with a
// row for what it is.
func TestRefusalsSayAllInTheirMessages(t *testing.T) {
	t.Parallel()
	db := connect(t, pgtest.New(t))
	refused := db.Refused(`INSERT INTO mesh.resources (kind, namespace, name, spec) VALUES ('DestinationRule', 'shop', 'x',
		'{"hots": "a", "subsets": [{"name": "v1", "lables": {}}]}')`)
	require.Equal(t, `DestinationRule shop/x: spec.host: required field is missing; and 2 more: spec.subsets[0].lables: unknown field "lables" (did you mean "labels"?); spec.hots: unknown field "hots"`, refused.Message)
	require.Equal(t, []string{"23514", "resource_is_valid"}, []string{refused.Code, refused.ConstraintName})

	refused = db.Refused(`INSERT INTO mesh.resources (kind, namespace, name, spec) VALUES ('DestinationRul', 'shop', 'x', '{}')`)
	require.Equal(t, []string{"23514", "kind_is_known"}, []string{refused.Code, refused.ConstraintName})
	require.Equal(t, "MS002", db.Refused("SELECT * FROM mesh.as_of(0, kinds => '{DestinationRul}')").Code, "a question is no row")

	db.create("ServiceEntry", "default", "reviews", reviews)
	db.create("VirtualService", "default", "a", route("a.example.com", `{"host": "reviews"}`))
	db.create("VirtualService", "default", "b", route("b.example.com", `{"host": "reviews"}`))
	db.Exec(`INSERT INTO mesh.settings (name, value) VALUES ('strict_references', 'on')`)
	refused = db.Refused("DELETE FROM mesh.service_entries")
	require.Equal(t, []string{"23503", "references_are_whole"}, []string{refused.Code, refused.ConstraintName})
	const lacks = `: spec.http[0].route[0].destination.host: no ServiceEntry that namespace "default" can see has the host "reviews.default.svc.cluster.local"`
	require.Equal(t, "VirtualService default/a"+lacks+"; and 1 more: VirtualService default/b"+lacks, refused.Message)
}

// What is missing or there already is said in words, without columns that nobody wrote.
func TestRefusalsSayWhatIsMissingOrThereAlready(t *testing.T) {
	t.Parallel()
	db := connect(t, pgtest.New(t))
	db.Exec("INSERT INTO mesh.destination_rules (namespace, name, host) VALUES ('shop', 'x', 'a'), ('shop', 'y', 'a')")
	db.Exec(`INSERT INTO mesh.gateway_classes (name, controller_name) VALUES ('x', 'pgmesh.io/x')`)
	for _, c := range []struct{ sql, code, says, column string }{
		{"INSERT INTO mesh.resources (kind, namespace, name, spec) VALUES ('DestinationRule', 'shop', 'z', NULL)", "23502", "DestinationRule shop/z: the column spec must not be null", "spec"},
		{"INSERT INTO mesh.resources (kind, namespace, name, spec) VALUES ('DestinationRule', 'shop', NULL, '{}')", "23502", "DestinationRule: the column name must not be null", "name"},
		{"INSERT INTO mesh.resources (kind, namespace, name, spec) VALUES (NULL, 'shop', 'z', '{}')", "23502", "shop/z: the column kind must not be null", "kind"},
		{"INSERT INTO mesh.resources (kind, namespace, name, spec, labels) VALUES ('DestinationRule', 'shop', 'z', '{}', NULL)", "23502", "DestinationRule shop/z: the column labels must not be null", "labels"},
		{"UPDATE mesh.resources SET spec = NULL WHERE name = 'y'", "23502", "DestinationRule shop/y: the column spec must not be null", "spec"},
		{"UPDATE mesh.resources SET name = NULL WHERE name = 'y'", "23502", "DestinationRule: the column name must not be null", "name"},
		{"INSERT INTO mesh.resources (kind, namespace, name, spec, labels) VALUES ('DestinationRule', 'shop', 'z', '{\"host\": \"a\"}', '[]')", "23514", "DestinationRule shop/z: metadata.labels: expected an object", ""},
		{"INSERT INTO mesh.destination_rules (namespace, name, host) VALUES ('shop', 'x', 'b')", "23505", "DestinationRule shop/x is there already", ""},
		{"UPDATE mesh.destination_rules SET name = 'x' WHERE name = 'y'", "23505", "DestinationRule shop/x is there already", ""},
		{"INSERT INTO mesh.gateway_classes (name, controller_name) VALUES ('x', 'pgmesh.io/x')", "23505", "GatewayClass x is there already", ""},
		{"INSERT INTO mesh.resources (kind, namespace, name, spec) VALUES ('DestinationRule', 'shop', 'x', '{\"host\": \"a\"}')", "23505", `"resource_exists_already"`, ""},
	} {
		refused := db.Refused(c.sql)
		require.Equal(t, []string{c.code, c.column}, []string{refused.Code, refused.ColumnName}, c.sql)
		require.Contains(t, refused.Message, c.says, c.sql)
		require.NotContains(t, refused.Detail, "Failing row", c.sql)
		if c.code == "23505" {
			require.Equal(t, "resource_exists_already", refused.ConstraintName, c.sql)
		}
	}
	// Upserts go on as ever.
	db.Exec(`INSERT INTO mesh.resources (kind, namespace, name, spec) VALUES ('DestinationRule', 'shop', 'x', '{"host": "b"}') ON CONFLICT DO NOTHING`)
	require.Equal(t, "a", value[string](db, "SELECT host FROM mesh.destination_rules WHERE name = 'x'"))
	db.Exec(`INSERT INTO mesh.resources (kind, namespace, name, spec) VALUES ('DestinationRule', 'shop', 'x', '{"host": "b"}')
		ON CONFLICT (kind, api_group, namespace, name) DO UPDATE SET spec = EXCLUDED.spec`)
	require.Equal(t, "b", value[string](db, "SELECT host FROM mesh.destination_rules WHERE name = 'x'"))
	db.Exec(`INSERT INTO mesh.resources (kind, namespace, name, spec) VALUES ('DestinationRule', 'shop', 'x', '{"host": "c"}')
		ON CONFLICT ON CONSTRAINT resource_exists_already DO UPDATE SET spec = EXCLUDED.spec`)
	require.Equal(t, "c", value[string](db, "SELECT host FROM mesh.destination_rules WHERE name = 'x'"))
}

// A fraction is refused where an integer belongs, and not rounded; likewise a position that no list has.
func TestViewsRoundNothing(t *testing.T) {
	t.Parallel()
	db, _ := newShop(t)
	for _, c := range []struct{ sql, says string }{
		{"UPDATE mesh.route_destinations SET weight = 33.3 WHERE weight = 0", "weight: expected an integer, got 33.3"},
		{"UPDATE mesh.routes SET position = 0.5", "the column position of mesh.routes must be an integer, got 0.5"},
		{"UPDATE mesh.routes SET position = -1", "the column position of mesh.routes must not be negative, got -1"},
		{"INSERT INTO mesh.subsets (destination_rule, name, position) VALUES ('reviews', 'x', -1)", "the column position of mesh.subsets must not be negative, got -1"},
		{"INSERT INTO mesh.route_destinations (virtual_service, route_position, host) VALUES ('reviews', -1, 'a.shop')", "the column route_position of mesh.route_destinations must not be negative, got -1"},
		{"INSERT INTO mesh.route_destinations (virtual_service, route_position, host) VALUES ('reviews', 0.4, 'a.shop')", "the column route_position of mesh.route_destinations must be an integer, got 0.4"},
	} {
		refused := db.Refused(c.sql)
		require.Equal(t, "23514", refused.Code, c.sql)
		require.Contains(t, refused.Message, c.says, c.sql)
	}
	db.Exec("UPDATE mesh.route_destinations SET weight = 33.0 WHERE weight = 0")
	require.Equal(t, "33", value[string](db, "SELECT spec ->> 'weight' FROM mesh.route_destinations WHERE weight = 33"))
	require.Zero(t, value[int](db, `SELECT count(*) FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN mesh_internal.editable_views v ON v.view = c.relname
		WHERE c.relnamespace = 'mesh'::regnamespace AND a.attnum > 0 AND a.atttypid IN ('int'::regtype, 'bigint'::regtype) AND a.attname NOT IN ('revision', 'generation')`))
}

// A name that never was is most likely misspelt.
func TestNamesThatNeverWereAreRefused(t *testing.T) {
	t.Parallel()
	db := connect(t, pgtest.New(t))
	db.Put("reviews", "a")
	db.Put("gone", "a")
	db.Exec("DELETE FROM mesh.resources WHERE name = 'gone'")
	for _, c := range []struct{ sql, hint string }{
		{"SELECT * FROM mesh.blame('VirtualService', 'default', 'revews')", `did you mean "reviews"?`},
		{"SELECT * FROM mesh.blame('VirtualService', 'shop', 'reviews')", "there is VirtualService default/reviews"},
		{"SELECT * FROM mesh.as_of(1, names => '{revews}')", `did you mean "reviews"?`},
		{"SELECT * FROM mesh.as_of(now(), kinds => '{ServiceEntry}', names => '{reviews}')", "there is VirtualService default/reviews"},
		{"SELECT * FROM mesh.diff(1, names => '{reviews,something}')", "mesh.readable_resources has the names of all"},
		{"SELECT * FROM mesh.restore(1, names => '{revews}')", `did you mean "reviews"?`},
	} {
		refused := db.Refused(c.sql)
		require.Equal(t, []string{"MS010", c.hint}, []string{refused.Code, refused.Hint}, c.sql)
	}
	require.Empty(t, collect[string](db, "SELECT path FROM mesh.blame('VirtualService', 'default', 'gone')"))
	require.Len(t, collect[string](db, "SELECT name FROM mesh.as_of(2, names => '{gone}')"), 1)
}

// A namespace of which nothing is known is most likely misspelt, too.
func TestNamespacesThatNeverWereAreRefused(t *testing.T) {
	t.Parallel()
	y := newTenancy(t)
	y.owner.Exec(`INSERT INTO mesh.resources (kind, namespace, name, spec) VALUES ('VirtualService', 'gone', 'x', $1)`, virtualService("a"))
	y.owner.Exec("DELETE FROM mesh.resources WHERE namespace = 'gone'; INSERT INTO mesh.settings (name, namespace, value) VALUES ('namespace_max_resources', 'planned', '7')")
	tenant := y.tenant("tenant", [2]string{"empty", "write"})
	for _, function := range []string{"as_of", "diff", "restore"} {
		ask := "SELECT name FROM mesh." + function + "(mesh.newest_revision(), namespaces => '%s')"
		for namespaces, hint := range map[string]string{
			"{defalt}": `did you mean "default"?`, "{gone,never}": "mesh.readable_resources has the namespaces of all", "{something}": "mesh.readable_resources has the namespaces of all", "{NULL}": "mesh.readable_resources has the namespaces of all",
		} {
			refused := y.owner.Refused(fmt.Sprintf(ask, namespaces))
			require.Equal(t, []string{"MS010", hint}, []string{refused.Code, refused.Hint}, namespaces)
		}
		for _, known := range []string{"{default}", "{gone}", "{planned}", "{empty}", `{""}`, "{}"} {
			require.Empty(t, collect[string](y.owner, fmt.Sprintf(ask, known)), known)
		}
		require.Empty(t, collect[string](tenant, fmt.Sprintf(ask, "{empty}")))
		refused := tenant.Refused(fmt.Sprintf(ask, "{gone}"))
		require.Equal(t, []string{"MS010", "mesh.readable_resources has the namespaces of all"}, []string{refused.Code, refused.Hint}, "nobody learns of namespaces by asking for them")
	}
	require.Equal(t, `did you mean "empty"?`, tenant.Refused("SELECT * FROM mesh.diff(0, namespaces => '{emptyy}')").Hint)
}

// Nobody learns of names by asking for them.
func TestNamesOfOthersNeverWere(t *testing.T) {
	t.Parallel()
	y := newTenancy(t)
	y.owner.Exec(`INSERT INTO mesh.resources (kind, namespace, name, spec) VALUES ('VirtualService', 'b', 'canary', $1)`, virtualService("canary"))
	tenant := y.tenant("tenant", [2]string{"a", "write"})
	refused := tenant.Refused("SELECT * FROM mesh.blame('VirtualService', 'b', 'canary')")
	require.Equal(t, []string{"MS010", "mesh.readable_resources has the names of all"}, []string{refused.Code, refused.Hint})
}
