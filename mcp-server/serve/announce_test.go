package serve_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/consultest"
	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/internal/testbench/poll"
	"github.com/pgmesh/pgmesh/mcp-server/serve"
)

var statements = regexp.MustCompile("(?ms)^```sql\n(.*?)^```$")

// announced waits until Consul has these instances of a service, each as its resource, its address,
// its port and its version.
func announced(t *testing.T, c *consultest.Consul, service string, wanted ...string) {
	t.Helper()
	poll.Eventually(t, func(context.Context) error {
		var found []struct {
			Service struct {
				Address string
				Port    int
				Meta    map[string]string
			}
		}
		if err := json.Unmarshal(c.Get("/v1/health/service/"+service+"?passing"), &found); err != nil {
			return err
		}
		var got []string
		for _, f := range found {
			got = append(got, fmt.Sprintf("%s %s:%d %s", f.Service.Meta["pgmesh-resource"], f.Service.Address, f.Service.Port, f.Service.Meta["version"]))
		}
		if slices.Sort(got); !slices.Equal(got, wanted) {
			return fmt.Errorf("Consul has %q of %s, not %q", got, service, wanted)
		}
		return nil
	})
}

// What docs/consul.md has people write is found in Consul, follows what the mesh has, and goes when
// it goes, while the same server reads that Consul as a registry.
func TestServicesThatTheDocsAnnounce(t *testing.T) {
	t.Parallel()
	c, database := consultest.Start(t, nil), pgtest.New(t)
	c.Register(consultest.Instance{ID: "native", Service: "native", Node: "machine", Address: "10.9.9.9", Port: 80, Status: "passing"})
	page, err := os.ReadFile("../../docs/consul.md")
	require.NoError(t, err)
	examples := statements.FindAllSubmatch(page, -1)
	require.Len(t, examples, 1)
	execute(t, database, string(examples[0][1]))
	var servers []*running
	for range 2 {
		servers = append(servers, launch(t, serve.Options{
			Database: database, Announce: serve.Announce{URLs: []string{"consul://" + c.Address}},
			Registries: serve.Registries{URLs: []string{"consul://" + c.Address + "?hosts=short"}},
		}))
	}
	announced(t, c, "web", "shop/web 10.0.0.1:8080 v1")

	execute(t, database, `INSERT INTO mesh.resources (kind, namespace, name, spec) VALUES ('WorkloadEntry', 'shop', 'web-2', '{"address": "10.0.0.2", "labels": {"app": "web"}, "ports": {"http": 9090}}')`)
	announced(t, c, "web", "shop/web 10.0.0.1:8080 v1", "shop/web 10.0.0.2:9090 ")
	execute(t, database, `UPDATE mesh.resources SET annotations = '{"mesh.pgmesh.io/health": "unhealthy: it burns"}' WHERE name = 'web-1'`)
	announced(t, c, "web", "shop/web 10.0.0.2:9090 ")

	client := connect(t, servers[0].MCP.String(), nil)
	require.ElementsMatch(t, []string{"web", "web-1", "web-2", "consul.native"}, namesOf(client.next()), "the mesh is not told of itself")

	execute(t, database, `UPDATE mesh.resources SET annotations = '{"pgmesh.io/announce": "true", "a": "b"}' WHERE name = 'web-1'`)
	announced(t, c, "web", "shop/web 10.0.0.1:8080 v1", "shop/web 10.0.0.2:9090 ")
	writing := slices.IndexFunc(servers, func(s *running) bool {
		_, metrics := s.get("/metrics")
		return strings.Contains(metrics, `pgmesh_mcp_server_announcer_writes{announcer="pgmesh"} 1`)
	})
	require.GreaterOrEqual(t, writing, 0)
	servers[writing].end()
	execute(t, database, `DELETE FROM mesh.resources WHERE name = 'web-1'`)
	announced(t, c, "web", "shop/web 10.0.0.2:9090 ")
	execute(t, database, `UPDATE mesh.resources SET annotations = '{}' WHERE name = 'web'`)
	announced(t, c, "web")
}

// While the database is away nothing is taken away, not even by a server that starts meanwhile.
func TestAnnouncementsOutliveTheDatabase(t *testing.T) {
	t.Parallel()
	c, postgres := consultest.Start(t, nil), pgtest.Server(t)
	write(t, postgres.URL, "a", "a.example")
	options := serve.Options{Database: postgres.URL, StateDir: t.TempDir(), Announce: serve.Announce{URLs: []string{"consul://" + c.Address + "?every=true&from=default"}}}
	first := launch(t, options)
	announced(t, c, "a", "default/a a.example:80 ")
	write(t, postgres.URL, "b", "b.example")
	announced(t, c, "b", "default/b b.example:80 ")
	postgres.Kill()
	first.ready(200, "services cannot be announced as pgmesh: this server does not know what the mesh has now")
	first.end()
	second := launch(t, options)
	second.ready(200, "saved")
	_, metrics := second.get("/metrics")
	require.Contains(t, metrics, `pgmesh_mcp_server_announcer_writes{announcer="pgmesh"} 0`)
	announced(t, c, "a", "default/a a.example:80 ")
	postgres.Start()
	execute(t, postgres.URL, `DELETE FROM mesh.resources WHERE name = 'a'`)
	announced(t, c, "a")
	announced(t, c, "b", "default/b b.example:80 ")
}

func TestABridgeHasNothingToAnnounce(t *testing.T) {
	t.Parallel()
	err := serve.Run(t.Context(), serve.Options{
		Registries: serve.Registries{URLs: []string{"files:///tmp"}}, Announce: serve.Announce{URLs: []string{"consul://127.0.0.1"}}, Log: discard,
	}, nil)
	require.ErrorContains(t, err, "give --database or --upstream")
}
