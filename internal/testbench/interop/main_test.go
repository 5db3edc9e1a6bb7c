package interop

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/pgmesh/pgmesh/internal/testbench/programs"
)

var (
	// bin is the folder of the built programs.
	bin string
	// istiod is the program of tools/istiod, empty if it was not built.
	istiod = os.Getenv("ISTIOD")
	// pilotAgent and kubectl are those of tools/istiod and of tools/kube-apiserver, empty likewise.
	pilotAgent, kubectl = os.Getenv("PILOT_AGENT"), os.Getenv("KUBECTL")
)

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	if istiod == "" {
		return m.Run()
	}
	for _, program := range []*string{&istiod, &pilotAgent, &kubectl} {
		if *program == "" {
			continue
		}
		path, err := filepath.Abs(*program)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		*program = path
	}
	return programs.Main(m, &bin, nil, "mcp-server", "discovery", "mcp-client", "mesh-agent")
}
