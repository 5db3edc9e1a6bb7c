package attack

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Whoever controls the MeshConfig controls the mesh: its root namespace, whose EnvoyFilters are for
// all proxies, and its trust domain.
func TestATenantDoesNotGetTheMeshConfig(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	b := newBystander(m)
	evil := m.tenant("evil", "evil", "istio-system")
	token := m.token("evil", "write:evil,istio-system")
	for kind, spec := range map[string]string{"MeshConfig": `{"rootNamespace": "evil"}`, "MeshNetworks": `{"networks": {}}`} {
		for _, namespace := range []string{"evil", "istio-system"} {
			sql := "INSERT INTO mesh.resources (kind, namespace, name, spec) VALUES ($1, $2, 'm', $3)"
			require.Contains(t, refused(t, evil, sql, kind, namespace, spec), "configures the whole mesh")
			said, err := m.clientOf(token, "apiVersion: core/v1alpha1\nkind: "+kind+"\nmetadata: {name: m, namespace: "+namespace+"}\nspec: "+spec+"\n", "apply", "-f", "-")
			require.Error(t, err)
			require.Contains(t, said, "whole mesh", "%s/%s", kind, namespace)
		}
	}
	m.sql("INSERT INTO mesh.mesh_configs (namespace, name, root_namespace, trust_domain) VALUES ('istio-system', 'mesh', 'roots', 'cluster.local')")
	for _, sql := range []string{
		"UPDATE mesh.mesh_configs SET root_namespace = 'evil'", "DELETE FROM mesh.mesh_configs", "UPDATE mesh.resources SET namespace = 'evil' WHERE kind = 'MeshConfig'",
	} {
		require.Regexp(t, "configures the whole mesh", refused(t, evil, sql), sql)
	}
	said, err := m.clientOf(token, "", "delete", "meshconfig", "mesh", "-n", "istio-system")
	require.Error(t, err)
	require.Contains(t, said, "whole mesh")

	// The owner creates it again. No other one counts meanwhile.
	m.sql("DELETE FROM mesh.mesh_configs")
	var root, domain string
	require.NoError(t, m.owner.QueryRow(t.Context(), "SELECT mesh_internal.root_namespace(), mesh.trust_domain()").Scan(&root, &domain))
	require.Equal(t, []string{"istio-system", "cluster.local"}, []string{root, domain})
	b.change()
}
