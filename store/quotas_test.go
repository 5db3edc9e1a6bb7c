package store_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/store"
)

// entries are so many ServiceEntries of a namespace, in one statement.
func entries(namespace string, from, to int, padding string) string {
	return fmt.Sprintf(`INSERT INTO mesh.resources (kind, namespace, name, spec, annotations) SELECT 'ServiceEntry', '%s', 'e' || n,
		jsonb_build_object('hosts', jsonb_build_array('e' || n || '.%[1]s'), 'resolution', 'DNS', 'ports', '[{"number": 80, "name": "http", "protocol": "HTTP"}]'::jsonb),
		jsonb_build_object('note', '%[2]s') FROM generate_series(%[3]d, %[4]d) n`, namespace, padding, from, to)
}

func limit(y tenancy, namespace, setting string, value int) {
	y.owner.exec("INSERT INTO mesh.settings (namespace, name, value) VALUES ($1, $2, $3) ON CONFLICT (name, namespace) DO UPDATE SET value = EXCLUDED.value", namespace, setting, fmt.Sprint(value))
}

// A resource has a size that it may have at most, for everybody; one that is larger from before may shrink.
func TestResourcesAreOfLimitedSize(t *testing.T) {
	t.Parallel()
	y := newTenancy(t)
	put := func(size int) string {
		return fmt.Sprintf("UPDATE mesh.virtual_services SET hosts = '{a}', http = jsonb_build_array(jsonb_build_object('directResponse', "+
			"jsonb_build_object('status', 200, 'body', jsonb_build_object('string', repeat('x', %d))))) WHERE name = 'x'", size)
	}
	y.owner.exec(put(1_000_000))
	refused := y.owner.refused(put(1_100_000))
	require.Equal(t, "MS001", refused.Code)
	require.Contains(t, refused.Message, "VirtualService a/x: is 1074 KiB large, and may be 1024 KiB at most")
	limit(y, "a", "resource_max_bytes", 20_000)
	require.Contains(t, y.owner.refused(put(1_000_001)).Message, "and may be 20 KiB at most")
	y.owner.exec(put(900_000))
	y.owner.exec(put(100))
	require.Contains(t, y.tenant("tenant").refused(put(21_000)).Message, "and may be 20 KiB at most")
}

// What a namespace has is limited for those who may not write everywhere: in number and in size, however well it compresses.
func TestNamespacesHaveQuotas(t *testing.T) {
	t.Parallel()
	y := newTenancy(t)
	tenant := y.tenant("tenant")
	limit(y, "a", "namespace_max_resources", 10)
	limit(y, "a", "namespace_max_bytes", 100_000)
	tenant.exec(entries("a", 1, 9, ""))
	refused := tenant.refused(entries("a", 10, 10, ""))
	require.Equal(t, "MS008", refused.Code)
	require.Equal(t, `the namespace "a" would have 11 resources, and may have 10`, refused.Message)
	require.Contains(t, refused.Hint, "namespace_max_resources")
	y.owner.exec(entries("a", 10, 12, ""))
	tenant.exec("UPDATE mesh.service_entries SET labels = '{\"a\": \"b\"}'") // more than it may have is no reason not to be changed
	tenant.exec("DELETE FROM mesh.service_entries WHERE name = 'e12'")
	y.owner.exec("DELETE FROM mesh.service_entries WHERE namespace = 'a'")

	refused = tenant.refused(entries("a", 1, 3, strings.Repeat("x", 40_000)))
	require.Equal(t, "MS008", refused.Code)
	require.Contains(t, refused.Message, `the namespace "a" would have 118 KiB of resources, and may have 98 KiB`)
	tenant.exec(entries("a", 1, 2, strings.Repeat("x", 40_000)))
	require.Equal(t, "a 3 10", value[string](tenant, "SELECT concat_ws(' ', namespace, resources, max_resources) FROM mesh.quotas"))

	for _, sql := range []string{
		"INSERT INTO mesh.settings (namespace, name, value) VALUES ('a', 'registered_machines_max', '9')", "UPDATE mesh.settings SET value = '1000' WHERE namespace = 'a'",
		"SELECT mesh.reset_setting('namespace_max_resources', 'a')",
	} {
		require.Equal(t, "42501", tenant.refused(sql).Code, sql)
	}
	tenant.exec("INSERT INTO mesh.settings (namespace, name, value) VALUES ('a', 'strict_references', 'on')")
	require.True(t, value[bool](tenant, "SELECT mesh.reset_setting('strict_references', 'a')"))
}

// Callers of the API that are limited to namespaces are as limited as tenants.
func TestQuotasHoldForLimitedCallers(t *testing.T) {
	t.Parallel()
	y := newTenancy(t)
	limit(y, "", "namespace_max_resources", 1)
	s := openURL(t, y.owner.conn.Config().ConnString())
	apply := store.Apply{Upserts: []store.Upsert{{Key: vs(t, "one"), Spec: virtualService("b")}, {Key: vs(t, "two"), Spec: virtualService("b")}}, Limited: true}
	for _, dry := range []bool{true, false} {
		apply.DryRun = dry
		_, err := s.Apply(t.Context(), apply)
		var refused *store.RefusedError
		require.ErrorAs(t, err, &refused)
		require.Contains(t, refused.Reason, "would have 2 resources, and may have 1")
	}
	apply.Limited = false
	_, err := s.Apply(t.Context(), apply)
	require.NoError(t, err)
}
