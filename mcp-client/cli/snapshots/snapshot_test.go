package snapshots_test

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

	"github.com/pgmesh/pgmesh/internal/testbench/clitest"
	"github.com/pgmesh/pgmesh/mcp-client/snapshot"
)

func TestSnapshotRestoresMesh(t *testing.T) {
	t.Parallel()
	all, err := os.ReadFile("../../../kinds/testdata/every-kind.yaml")
	require.NoError(t, err)
	m, other := clitest.Start(t), clitest.Start(t)
	loaded := m.Pipe(string(all), "import", "-")
	require.Zero(t, loaded.Code, loaded.Err)
	m.Await(1)
	file := filepath.Join(t.TempDir(), "monday.snapshot.gz")
	require.Regexp(t, `^\d+ resources in `+file+"\n$", m.OK("snapshot", "save", file))

	other.Apply(clitest.VirtualService("default", "left", "over") + clitest.Separator + clitest.VirtualService("other", "left", "over"))
	require.Contains(t, other.OK("snapshot", "load", file, "--dry-run"), "dry run: nothing was changed")
	require.Equal(t, 2, other.Stored())
	dry := other.OK("snapshot", "load", file, "--prune", "--dry-run")
	require.Contains(t, dry, "virtualservice default/left deleted\nvirtualservice other/left deleted\n")
	require.Equal(t, 2, other.Stored())
	require.Equal(t, 2, other.Run("snapshot", "load", file, "--prune").Code)
	require.Contains(t, other.OK("snapshot", "load", file, "--prune", "--yes", "-m", "back"), "revision 2\n")
	require.Equal(t, m.Everything(), other.Everything())
	require.Contains(t, other.OK("snapshot", "load", file), "nothing to change\n")
	var message string
	other.Query("SELECT message FROM mesh.revisions WHERE revision = 2", &message)
	require.Equal(t, "back", message)
}

func TestPartialSnapshot(t *testing.T) {
	t.Parallel()
	m, other := clitest.Bookinfo(t), clitest.Start(t)
	file := filepath.Join(t.TempDir(), "s")
	require.Equal(t, "1 resource in "+file+"\n", m.OK("snapshot", "save", file, "-n", "prod", "--kind", "vs"))
	m.OK("snapshot", "save", file)
	other.Apply(clitest.VirtualService("prod", "left", "over") + clitest.Separator + clitest.VirtualService("default", "left", "over"))
	require.Contains(t, other.OK("snapshot", "load", file, "-n", "prod", "--kind", "vs", "--prune", "--yes"), "virtualservice prod/left deleted\n")
	require.Equal(t, 2, other.Stored())
}

func TestSnapshotShow(t *testing.T) {
	t.Parallel()
	m := clitest.Bookinfo(t)
	file := filepath.Join(t.TempDir(), "s")
	m.OK("snapshot", "save", file)
	show := func(args ...string) clitest.Result {
		return clitest.Run(t.Context(), "", nil, append([]string{"snapshot", "show", file}, args...)...)
	}

	require.Regexp(t, `^server                                `+m.Address+`
revision                              1
taken                                 \d{4}-\d\d-\d\d \d\d:\d\d:\d\d
resources                             6
  destinationrule                     1
  virtualservice                      3
  gatewayclass                        1
  gateway.gateway.networking.k8s.io   1
$`, show().Out)
	require.Equal(t, "6", show("-o", "jsonpath={.resources}").Out)
	require.Equal(t, 6, strings.Count(show("-o", "name").Out, "\n"))
	require.Equal(t, clitest.WithoutTimes(clitest.WithoutStatuses(m.OK("get", "vs", "-A", "-o", "yaml"))), clitest.WithoutTimes(show("vs", "-A", "-o", "yaml").Out))
	require.Equal(t, "reviews.example.com", show("vs", "reviews", "-o", "jsonpath={.spec.hosts[0]}").Out)
	require.Equal(t, "virtualservice.networking.istio.io/default/ratings\n", show("vs", "-l", "app=ratings", "-o", "name").Out)
	require.Equal(t, 1, show("vs", "gone").Code)
	require.Equal(t, 2, show("nothing").Code)
	require.Equal(t, 2, show("vs", "-l", "a b").Code)

	piped := m.OK("snapshot", "save", "-")
	require.Equal(t, "6", clitest.Run(t.Context(), piped, nil, "snapshot", "show", "-", "-o", "jsonpath={.resources}").Out)
	r := clitest.Run(t.Context(), piped[:len(piped)-10], nil, "snapshot", "show", "-")
	require.Equal(t, 1, r.Code)
	require.Contains(t, r.Err, "not a whole snapshot")
	require.Contains(t, m.Run("snapshot", "load", file+".gone").Err, "no such file")
	require.Contains(t, m.Run("snapshot", "save", filepath.Join(file, "x")).Err, "not a directory")
	require.Equal(t, 2, m.Run("snapshot", "sve").Code)
}

// The state of a foreign server can be saved, and loaded into pgmesh.
func TestSnapshotOfForeignServer(t *testing.T) {
	t.Parallel()
	address := clitest.ServeGRPC(t, func(s *grpc.Server) { discoveryv3.RegisterAggregatedDiscoveryServiceServer(s, clitest.Stock{}) })
	m := clitest.Start(t)
	saved := clitest.Run(t.Context(), "", nil, "snapshot", "save", "-", "--server", address, "--insecure")
	require.Zero(t, saved.Code, saved.Err)
	h, entries, err := snapshot.Read(bytes.NewReader([]byte(saved.Out)))
	require.NoError(t, err)
	require.Zero(t, h.Revision)
	require.Len(t, entries, 1)
	r := m.Pipe(saved.Out, "snapshot", "load", "-")
	require.Equal(t, 3, r.Code, "what a server of others serves is checked: this route leads nowhere")
	require.Contains(t, r.Err, "VirtualService default/reviews")
	require.Contains(t, clitest.Run(t.Context(), saved.Out, nil, "snapshot", "show", "-").Out, "revision           -\n")
}

func TestLargeSnapshot(t *testing.T) {
	t.Parallel()
	m := clitest.Start(t)
	var text strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&text, "---\n%s", clitest.VirtualService(fmt.Sprintf("n%d", i%7), fmt.Sprintf("v%d", i), "a"))
	}
	r := m.Pipe(text.String(), "import", "-")
	require.Zero(t, r.Code, r.Err)
	m.Await(1)
	file := filepath.Join(t.TempDir(), "s.gz")
	require.Equal(t, "3000 resources in "+file+"\n", m.OK("snapshot", "save", file))
	require.Contains(t, m.OK("compare", file), "3000 the same, 0 different")
	require.Equal(t, 3000, strings.Count(m.OK("get", "vs", "-A", "-o", "name"), "\n"))
}
