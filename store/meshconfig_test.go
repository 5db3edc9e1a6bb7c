package store_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/internal/testbench/storetest"
	"github.com/pgmesh/pgmesh/store/migration"
)

func putMeshConfig(namespace, name, spec string) string {
	return fmt.Sprintf("INSERT INTO mesh.mesh_configs (namespace, name, spec) VALUES ('%s', '%s', '%s')", namespace, name, spec)
}

// There is one MeshConfig, in one place, and it is the affair of those alone who write to every
// namespace.
func TestTheMeshConfigHasOnePlace(t *testing.T) {
	t.Parallel()
	y := newTenancy(t)
	tenant := y.tenant("tenant", [2]string{"istio-system", "write"})
	for _, db := range []session{y.owner, tenant} {
		refused := db.Refused(putMeshConfig("a", "mesh", "{}"))
		require.Equal(t, "23514", refused.Code)
		require.Contains(t, refused.Message, `counts in the namespace "istio-system" alone`)
		require.Contains(t, db.Refused("INSERT INTO mesh.mesh_networks (namespace, name) VALUES ('a', 'mesh')").Message, "MeshNetworks configures the whole mesh")
	}
	denied := tenant.Refused(putMeshConfig("istio-system", "mesh", "{}"))
	require.Equal(t, "42501", denied.Code)
	require.Contains(t, denied.Message, "may not write the MeshConfig")
	require.Contains(t, denied.Hint, "mesh.grant_namespace(")

	y.owner.Exec(putMeshConfig("istio-system", "mesh", `{"rootNamespace": "roots", "trustDomain": "one.example", "trustDomainAliases": ["two.example"]}`))
	require.Equal(t, []string{"one.example", "two.example"}, value[[]string](y.owner, "SELECT mesh.trust_domains()"))
	require.Equal(t, "roots", value[string](y.owner, "SELECT mesh_internal.root_namespace()"))
	require.Contains(t, y.owner.Refused(putMeshConfig("istio-system", "other", "{}")).Message, "the mesh has its MeshConfig, which is istio-system/mesh")
	for _, sql := range []string{
		"UPDATE mesh.mesh_configs SET root_namespace = 'a'", "DELETE FROM mesh.mesh_configs", "UPDATE mesh.mesh_configs SET name = 'mine'",
		"UPDATE mesh.resources SET spec = '{}' WHERE kind = 'MeshConfig'", "DELETE FROM mesh.resources WHERE kind = 'MeshConfig'",
		"SELECT mesh.restore((SELECT min(revision) FROM mesh.revisions))",
	} {
		require.Equal(t, "42501", tenant.Refused(sql).Code, sql)
	}
	require.Equal(t, "roots", value[string](y.owner, "SELECT mesh_internal.root_namespace()"))

	y.owner.Exec("BEGIN; DELETE FROM mesh.mesh_configs; " + putMeshConfig("istio-system", "new", `{"trustDomain": "three.example"}`) + "; COMMIT")
	require.Equal(t, []string{"three.example"}, value[[]string](y.owner, "SELECT mesh.trust_domains()"))
	y.owner.Exec("DELETE FROM mesh.mesh_configs")
	require.Equal(t, []string{"cluster.local"}, value[[]string](y.owner, "SELECT mesh.trust_domains()"))
}

// A database of before the rule keeps what was in force there, the oldest, and tells of the others.
func TestAMeshConfigOfBeforeMovesToItsPlace(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	db := connect(t, url)
	require.NoError(t, migration.Down(t.Context(), url, 23, storetest.Quietly))
	db.Exec("ALTER TABLE mesh.resources DISABLE TRIGGER refuse_between_versions")
	for i, namespace := range []string{"b", "a"} {
		db.Exec(`INSERT INTO mesh.resources (api_group, kind, namespace, name, spec, rules, generation, created_at, updated_at, xid)
			VALUES ('core', 'MeshConfig', $1, 'mesh', jsonb_build_object('trustDomain', $1::text), 1, 1, '2020-01-01'::timestamptz + $2 * interval '1 day', now(), pg_current_xact_id())`, namespace, i)
	}
	db.Exec("ALTER TABLE mesh.resources ENABLE TRIGGER refuse_between_versions")
	require.NoError(t, migration.Up(t.Context(), url))
	require.Equal(t, []string{"b"}, value[[]string](db, "SELECT mesh.trust_domains()"))
	require.Equal(t, "a/mesh istio-system/mesh", value[string](db, "SELECT string_agg(namespace || '/' || name, ' ' ORDER BY namespace) FROM mesh.mesh_configs"))
	require.Equal(t, "error a", value[string](db, "SELECT severity || ' ' || namespace FROM mesh.problems WHERE code = 'misplaced'"))
	db.Exec("DELETE FROM mesh.mesh_configs WHERE namespace = 'a'")
	require.Empty(t, collect[string](db, "SELECT name FROM mesh.problems WHERE code = 'misplaced'"))
}
