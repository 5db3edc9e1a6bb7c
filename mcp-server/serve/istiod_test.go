package serve_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/stretchr/testify/require"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/mcp-server/serve"
)

// eachIstiod runs a test with what asks as istiod has asked since 1.24, and as it did before.
func eachIstiod(t *testing.T, test func(t *testing.T, i *istiod)) {
	t.Helper()
	for name, asks := range map[string][]string{"since 1.24": newIstiod, "up to 1.23": oldIstiod} {
		t.Run(name, func(t *testing.T) { t.Parallel(); test(t, newIstiodOf(t, asks)) })
	}
}

// Istiod waits for ever for a kind that is not answered.
func TestIstiodIsAnsweredForEachKindOfAnEmptyMesh(t *testing.T) {
	t.Parallel()
	server := launch(t, serve.Options{Database: pgtest.New(t)})
	eachIstiod(t, func(t *testing.T, i *istiod) {
		i.sync(server.MCP.String())
		for _, typeURL := range i.asks {
			require.Equal(t, 1, i.answers[typeURL], "%s, by the very name that was asked for", typeURL)
		}
		require.Empty(t, i.done)
		require.Nil(t, i.mesh)
	})
}

func TestIstiodDoesWhatTransactionsSay(t *testing.T) {
	t.Parallel()
	eachIstiod(t, func(t *testing.T, i *istiod) {
		database := pgtest.New(t)
		write(t, database, "a", "a.example")
		i.sync(launch(t, serve.Options{Database: database}).MCP.String())
		require.Equal(t, []string{"add default/a"}, i.done)
		write(t, database, "b", "b.example")
		i.until("add default/b")
		write(t, database, "a", "c.example")
		i.until("update default/a")
		execute(t, database, "DELETE FROM mesh.resources WHERE name = 'b'")
		i.until("delete default/b")
		require.Equal(t, []string{"add default/a", "add default/b", "update default/a", "delete default/b"}, i.done)
		require.Empty(t, i.broken)
	})
}

// What istiod makes of a resource: the version of the type that was asked for is not that of the
// message in it.
func TestIstiodIsSentWhatItDecodes(t *testing.T) {
	t.Parallel()
	eachIstiod(t, func(t *testing.T, i *istiod) {
		database := pgtest.New(t)
		write(t, database, "a", "a.example")
		execute(t, database, `UPDATE mesh.resources SET labels = '{"app": "shop"}', annotations = '{"team": "blue"}'`)
		i.sync(launch(t, serve.Options{Database: database}).MCP.String())

		var typeURL string
		for url, all := range i.config {
			if len(all) > 0 {
				typeURL = url
			}
		}
		require.Equal(t, i.asks[slices.IndexFunc(i.asks, isServiceEntry)], typeURL)
		metadata := i.config[typeURL]["default/a"]
		require.Equal(t, map[string]string{"app": "shop"}, metadata.GetLabels())
		require.Equal(t, map[string]string{"team": "blue"}, metadata.GetAnnotations(), "and nothing of ours")
		require.NotEmpty(t, metadata.GetVersion())
		require.WithinDuration(t, time.Now(), metadata.GetCreateTime().AsTime(), time.Hour, "without one it would be of 1970")
		require.Equal(t, "type.googleapis.com/istio.networking.v1alpha3.ServiceEntry", i.bodies["default/a"].GetTypeUrl())
		entry := &networking.ServiceEntry{}
		require.NoError(t, i.bodies["default/a"].UnmarshalTo(entry))
		require.Equal(t, []string{"a.example"}, entry.GetHosts())
	})
}

func isServiceEntry(typeURL string) bool {
	return typeURL == "networking.istio.io/v1/ServiceEntry" || typeURL == "networking.istio.io/v1alpha3/ServiceEntry"
}

// Each new stream begins with the same requests. Whichever server answers, what istiod has stays as
// it is.
func TestIstiodComesBackAndNothingChanges(t *testing.T) {
	t.Parallel()
	eachIstiod(t, func(t *testing.T, i *istiod) {
		database := pgtest.New(t)
		for n := range 3 {
			write(t, database, fmt.Sprint("n", n), "n.example")
		}
		first, replica := launch(t, serve.Options{Database: database}), launch(t, serve.Options{Database: database})
		i.sync(first.MCP.String())
		require.Len(t, i.done, 3)
		i.sync(first.MCP.String())
		i.sync(replica.MCP.String())
		address := first.MCP.String()
		first.end()
		i.sync(launch(t, serve.Options{Database: database, Listen: address}).MCP.String())
		require.Len(t, i.done, 3, "the versions are the same after a reconnect, at another replica and after a restart")

		i.leave()
		execute(t, database, "DELETE FROM mesh.resources WHERE name = 'n1'")
		write(t, database, "n2", "m.example")
		i.sync(replica.MCP.String())
		i.until("delete default/n1")
		i.until("update default/n2")
		require.Len(t, i.done, 5)
	})
}

const writeMeshConfig = `INSERT INTO mesh.resources (kind, namespace, name, spec) VALUES ('MeshConfig', 'istio-system', 'meshconfig', '{"accessLogFile": "%s"}')
	ON CONFLICT (kind, api_group, namespace, name) DO UPDATE SET spec = EXCLUDED.spec`

// The MeshConfig comes without an envelope. Istiod does not say that it has it, so that it is not
// sent another one on that stream; the other kinds do not wait for that.
func TestIstiodKeepsTheMeshConfigAside(t *testing.T) {
	t.Parallel()
	eachIstiod(t, func(t *testing.T, i *istiod) {
		database := pgtest.New(t)
		execute(t, database, fmt.Sprintf(writeMeshConfig, "/one"))
		address := launch(t, serve.Options{Database: database}).MCP.String()
		i.sync(address)
		require.Equal(t, "/one", i.mesh.GetAccessLogFile())
		execute(t, database, fmt.Sprintf(writeMeshConfig, "/two"))
		write(t, database, "a", "a.example")
		i.until("add default/a")
		require.Equal(t, 1, i.answers[meshConfigURL])
		i.sync(address)
		require.Equal(t, "/two", i.mesh.GetAccessLogFile())
	})
}

// Istiod has been seen to answer about types that it does not know, and to ask for nothing else
// than its own.
func TestIstiodIsOnlySentWhatItAskedFor(t *testing.T) {
	t.Parallel()
	database := pgtest.New(t)
	address := launch(t, serve.Options{Database: database}).MCP.String()
	eachIstiod(t, func(t *testing.T, i *istiod) {
		i.sync(address)
		const other = "networking.istio.io/v1beta1/ServiceEntry"
		i.send(&discoveryv3.DiscoveryRequest{Node: i.node(), TypeUrl: other})
		for i.answers[other] == 0 {
			require.Contains(t, append(slices.Clone(i.asks), other), i.receive().GetTypeUrl())
		}
	})
}
