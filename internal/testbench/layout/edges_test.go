package layout

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// edge is a place where a program answers others, with what keeps a panic there from ending the
// program.
type edge struct{ opens, guard string }

var edges = []edge{{"grpc.NewServer(", "panics.ServerOptions()"}, {"&http.Server{", "panics.Handler("}}

// programs are the folders of what runs in production.
var programs = []string{"internal", "identity", "mcp-server", "mcp-client", "discovery", "mesh-agent"}

// Helpers of tests open servers, too.
var ofTests = []string{"internal/testbench/clitest", "internal/testbench/e2e", "discovery/servetest", "mesh-agent/identity/jointest"}

func TestNoPanicEndsAProgramAtItsEdges(t *testing.T) {
	t.Parallel()
	guarded := 0
	for _, program := range programs {
		require.NoError(t, filepath.WalkDir(filepath.Join("../../..", program), func(path string, _ fs.DirEntry, err error) error {
			folder := strings.TrimPrefix(filepath.ToSlash(filepath.Dir(path)), "../../../")
			if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") || slices.Contains(ofTests, folder) {
				return err
			}
			text, err := os.ReadFile(path)
			for _, e := range edges {
				if !strings.Contains(string(text), e.opens) {
					continue
				}
				guarded++
				require.Contains(t, string(text), e.guard, "%s opens a server: put %s around what answers", path, e.guard)
			}
			return err
		}))
	}
	require.GreaterOrEqual(t, guarded, 6, "the servers are not found any more")
}
