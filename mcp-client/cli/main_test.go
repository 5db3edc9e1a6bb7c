package cli_test

import (
	"context"
	"os"
	"testing"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/mcp-client/cli"
)

// actAsProgram is the variable that makes the test binary act as mcp-client, so that a shell can
// run it.
const actAsProgram = "PGMESH_TEST_ACT_AS_MCP_CLIENT"

func TestMain(m *testing.M) {
	if os.Getenv(actAsProgram) != "" {
		program := cli.Program{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Getenv: os.Getenv}
		os.Exit(program.Run(context.Background(), os.Args[1:]))
	}
	os.Exit(pgtest.VerifyMain(m))
}
