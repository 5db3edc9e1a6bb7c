package store_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/store/migration"
)

// What an older program read in specs, a newer one reads again: here the older took a Gateway's
// full host for a name of the rule's own namespace, and knew nothing of what Gateways make.
func TestAnUpgradeReadsAgainWhatResourcesSayOfEachOther(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	db := connect(t, url)
	db.create("Gateway", "ingress", "edge", `{"selector": {"app": "gw"}, "servers": [{"port": {"number": 80, "name": "http", "protocol": "HTTP"}, "hosts": ["*"]}]}`)
	db.create("VirtualService", "default", "a", `{"hosts": ["a.example.com"], "gateways": ["edge.ingress.svc.cluster.local", "gone.ingress.svc.cluster.local"],
		"http": [{"redirect": {"uri": "/b"}}]}`)
	db.Exec("UPDATE mesh_internal.links SET target = 'default/edge.ingress.svc.cluster.local' WHERE role = 'gateway' AND target = 'ingress/edge'")
	db.Exec("UPDATE mesh_internal.links SET part = 'default/edge.ingress.svc.cluster.local' WHERE role = 'claim' AND part = 'ingress/edge'")
	db.Exec("DELETE FROM mesh_internal.links WHERE role = 'server'")
	wrong, right := "error unknown-gateway VirtualService default/a spec.gateways[0]", "error unknown-gateway VirtualService default/a spec.gateways[1]"
	ofRules := "WHERE kind = 'VirtualService'"
	require.Equal(t, []string{wrong, right}, db.found(ofRules))

	db.Exec("UPDATE mesh_internal.installation SET code_digest = 'old', registry_digest = 'old'")
	require.NoError(t, migration.Up(t.Context(), url))
	require.Equal(t, []string{right}, db.found(ofRules))
}
