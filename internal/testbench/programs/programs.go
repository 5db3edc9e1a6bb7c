// Package programs builds the programs of pgmesh for the tests of a package.
package programs

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/internal/testbench/stack"
)

// Main builds programs into a new folder, whose path it stores in bin, runs the tests, and then
// calls stop, which may be nil. It returns the exit code for TestMain.
func Main(m *testing.M, bin *string, stop func() error, names ...string) int {
	dir, err := os.MkdirTemp("", "pgmesh-test-")
	if err != nil {
		return fail(err)
	}
	defer os.RemoveAll(dir)
	*bin = dir
	if err := os.Chmod(dir, 0o755); err != nil { // agents may run under an account of their own
		return fail(err)
	}
	if err := stack.Build(context.Background(), dir, names...); err != nil {
		return fail(err)
	}
	code := pgtest.Main(m)
	if stop != nil {
		if err := stop(); err != nil {
			return fail(err)
		}
	}
	return code
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, err)
	return 1
}
