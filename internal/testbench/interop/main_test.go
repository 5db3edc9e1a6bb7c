package interop

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/internal/testbench/stack"
)

var (
	// bin is the folder of the built programs.
	bin string
	// istiod is the program of tools/istiod, empty if it was not built.
	istiod = os.Getenv("ISTIOD")
)

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	if istiod == "" {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "pgmesh-interop-")
	if err != nil {
		return fail(err)
	}
	defer os.RemoveAll(dir)
	bin = dir
	if istiod, err = filepath.Abs(istiod); err != nil {
		return fail(err)
	}
	if err := stack.Build(context.Background(), dir, "mcp-server", "discovery", "mcp-client"); err != nil {
		return fail(err)
	}
	return pgtest.Main(m)
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, err)
	return 1
}
