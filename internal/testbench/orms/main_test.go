package orms

import (
	"os"
	"testing"

	"github.com/pgmesh/pgmesh/internal/testbench/programs"
)

// bin is the folder of the programs.
var bin string

func TestMain(m *testing.M) {
	os.Exit(programs.Main(m, &bin, nil, "mcp-server", "mcp-client"))
}
