package cli_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/pgmesh/pgmesh/mcp-client/snapshot"
)

func readSnapshot(t *testing.T, path string) []snapshot.Entry {
	t.Helper()
	_, entries, err := snapshot.Open(path)
	require.NoError(t, err)
	return entries
}

func writeSnapshot(t *testing.T, path string, entries []snapshot.Entry) {
	t.Helper()
	require.NoError(t, snapshot.Save(path, snapshot.Header{Server: "test"}, entries))
}

func TestSnapshotRestoresMesh(t *testing.T) {
	t.Parallel()
	all, err := os.ReadFile("../../kinds/testdata/every-kind.yaml")
	require.NoError(t, err)
	m, other := start(t), start(t)
	loaded := m.pipe(string(all), "import", "-")
	require.Zero(t, loaded.code, loaded.err)
	m.await(1)
	file := filepath.Join(t.TempDir(), "monday.snapshot.gz")
	require.Regexp(t, `^\d+ resources in `+file+"\n$", m.ok("snapshot", "save", file))

	other.apply(virtualService("default", "left", "over") + both + virtualService("other", "left", "over"))
	require.Contains(t, other.ok("snapshot", "load", file, "--dry-run"), "dry run: nothing was changed")
	require.Equal(t, 2, other.stored())
	dry := other.ok("snapshot", "load", file, "--prune", "--dry-run")
	require.Contains(t, dry, "virtualservice default/left deleted\nvirtualservice other/left deleted\n")
	require.Equal(t, 2, other.stored())
	require.Equal(t, 2, other.run("snapshot", "load", file, "--prune").code)
	require.Contains(t, other.ok("snapshot", "load", file, "--prune", "--yes", "-m", "back"), "revision 2\n")
	require.Equal(t, m.everything(), other.everything())
	require.Contains(t, other.ok("snapshot", "load", file), "nothing to change\n")
	var message string
	other.query("SELECT message FROM mesh.revisions WHERE revision = 2", &message)
	require.Equal(t, "back", message)
}

func TestPartialSnapshot(t *testing.T) {
	t.Parallel()
	m, other := bookinfo(t), start(t)
	file := filepath.Join(t.TempDir(), "s")
	require.Equal(t, "1 resource in "+file+"\n", m.ok("snapshot", "save", file, "-n", "prod", "--kind", "vs"))
	m.ok("snapshot", "save", file)
	other.apply(virtualService("prod", "left", "over") + both + virtualService("default", "left", "over"))
	require.Contains(t, other.ok("snapshot", "load", file, "-n", "prod", "--kind", "vs", "--prune", "--yes"), "virtualservice prod/left deleted\n")
	require.Equal(t, 2, other.stored())
}

func TestSnapshotShow(t *testing.T) {
	t.Parallel()
	m := bookinfo(t)
	file := filepath.Join(t.TempDir(), "s")
	m.ok("snapshot", "save", file)
	show := func(args ...string) result {
		return run(t.Context(), "", nil, append([]string{"snapshot", "show", file}, args...)...)
	}

	require.Regexp(t, `^server                                `+m.address+`
revision                              1
taken                                 \d{4}-\d\d-\d\d \d\d:\d\d:\d\d
resources                             6
  destinationrule                     1
  virtualservice                      3
  gatewayclass                        1
  gateway.gateway.networking.k8s.io   1
$`, show().out)
	require.Equal(t, "6", show("-o", "jsonpath={.resources}").out)
	require.Equal(t, 6, strings.Count(show("-o", "name").out, "\n"))
	require.Equal(t, m.ok("get", "vs", "-A", "-o", "yaml"), show("vs", "-A", "-o", "yaml").out)
	require.Equal(t, "reviews.example.com", show("vs", "reviews", "-o", "jsonpath={.spec.hosts[0]}").out)
	require.Equal(t, "virtualservice.networking.istio.io/default/ratings\n", show("vs", "-l", "app=ratings", "-o", "name").out)
	require.Equal(t, 1, show("vs", "gone").code)
	require.Equal(t, 2, show("nothing").code)
	require.Equal(t, 2, show("vs", "-l", "a b").code)

	piped := m.ok("snapshot", "save", "-")
	require.Equal(t, "6", run(t.Context(), piped, nil, "snapshot", "show", "-", "-o", "jsonpath={.resources}").out)
	r := run(t.Context(), piped[:len(piped)-10], nil, "snapshot", "show", "-")
	require.Equal(t, 1, r.code)
	require.Contains(t, r.err, "not a whole snapshot")
	require.Contains(t, m.run("snapshot", "load", file+".gone").err, "no such file")
	require.Contains(t, m.run("snapshot", "save", filepath.Join(file, "x")).err, "not a directory")
	require.Equal(t, 2, m.run("snapshot", "sve").code)
}

// The state of a foreign server can be saved, and loaded into pgmesh.
func TestSnapshotOfForeignServer(t *testing.T) {
	t.Parallel()
	address := serveGRPC(t, func(s *grpc.Server) { discoveryv3.RegisterAggregatedDiscoveryServiceServer(s, stock{}) })
	m := start(t)
	saved := run(t.Context(), "", nil, "snapshot", "save", "-", "--server", address, "--insecure")
	require.Zero(t, saved.code, saved.err)
	h, entries, err := snapshot.Read(bytes.NewReader([]byte(saved.out)))
	require.NoError(t, err)
	require.Zero(t, h.Revision)
	require.Len(t, entries, 1)
	r := m.pipe(saved.out, "snapshot", "load", "-")
	require.Equal(t, 3, r.code, "what a server of others serves is checked: this route leads nowhere")
	require.Contains(t, r.err, "VirtualService default/reviews")
	require.Contains(t, run(t.Context(), saved.out, nil, "snapshot", "show", "-").out, "revision           -\n")
}

func TestLargeSnapshot(t *testing.T) {
	t.Parallel()
	m := start(t)
	var text strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&text, "---\n%s", virtualService(fmt.Sprintf("n%d", i%7), fmt.Sprintf("v%d", i), "a"))
	}
	r := m.pipe(text.String(), "import", "-")
	require.Zero(t, r.code, r.err)
	m.await(1)
	file := filepath.Join(t.TempDir(), "s.gz")
	require.Equal(t, "3000 resources in "+file+"\n", m.ok("snapshot", "save", file))
	require.Contains(t, m.ok("compare", file), "3000 the same, 0 different")
	require.Equal(t, 3000, strings.Count(m.ok("get", "vs", "-A", "-o", "name"), "\n"))
}
