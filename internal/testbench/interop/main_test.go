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
)

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	if istiod == "" {
		return m.Run()
	}
	var err error
	if istiod, err = filepath.Abs(istiod); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return programs.Main(m, &bin, nil, "mcp-server", "discovery", "mcp-client")
}
