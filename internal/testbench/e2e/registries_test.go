package e2e

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
)

// A service that stands in a registry alone is called through Envoy, joins what the database has,
// and stays when the registry and the server are gone.
func TestServicesOfARegistryAreCalled(t *testing.T) {
	t.Parallel()
	database, inventory := pgtest.Server(t).URL, servicesFolder(t)
	folder := inventory.path
	control := newStack(t, database)
	control.ServerFlags("--registry", "files://"+folder+"?name=inventory")
	ctx, cancel := context.WithTimeout(t.Context(), longestWait)
	defer cancel()
	require.NoError(t, control.Start(ctx))
	m := meshOn(t, control, database)
	one, two, own := newBackend(t, "one", nil), newBackend(t, "two", nil), newBackend(t, "own", nil)
	put := func(instances string) {
		inventory.write(fmt.Sprintf("services: [{name: web, hosts: [web.mesh], ports: [{name: http, number: %s, protocol: HTTP}], instances: [%s]}]", m.port, instances))
	}
	instance := func(b *backend, more string) string {
		return fmt.Sprintf("{address: 127.0.0.1, ports: {http: %s}%s}", b.port, more)
	}
	put(instance(one, ""))
	m.answers("web.mesh", "one")
	put(instance(one, "") + "," + instance(two, ""))
	m.answeredBy("web.mesh", "one", "two")
	put(instance(one, ", health: unhealthy") + "," + instance(two, ""))
	m.answeredBy("web.mesh", "two")

	m.commit(fmt.Sprintf("apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: own, namespace: default}\n"+
		"spec: {hosts: [web.mesh], ports: [{number: %s, name: http, protocol: HTTP}], resolution: STATIC, endpoints: [{address: 127.0.0.1, ports: {http: %s}}]}", m.port, own.port))
	m.answeredBy("web.mesh", "own")
	m.transaction(func(tx pgx.Tx) {
		_, err := tx.Exec(t.Context(), "DELETE FROM mesh.resources WHERE name = 'own'")
		require.NoError(t, err)
	})
	m.answeredBy("web.mesh", "two")

	require.NoError(t, os.Rename(folder, folder+".away"))
	says(t, control.MCPServer.Log, "the registry cannot be asked")
	control.MCPServer.Stop()
	require.NoError(t, control.MCPServer.Start())
	require.NoError(t, control.MCPServer.Ready(ctx))
	require.NoError(t, m.status(ctx, "web.mesh", http.StatusOK))
	require.NoError(t, os.Rename(folder+".away", folder))
	put(instance(one, ""))
	m.answeredBy("web.mesh", "one")
}
