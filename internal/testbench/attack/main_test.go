package attack

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/internal/testbench/stack"
)

// bin is the folder of the built programs.
var bin string

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "pgmesh-attack-")
	if err == nil {
		defer os.RemoveAll(dir)
		bin = dir
		err = stack.Build(context.Background(), dir, "mcp-server", "discovery", "mesh-agent", "mcp-client")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return pgtest.Main(m)
}
