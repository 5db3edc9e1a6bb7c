package files_test

import (
	"os"
	"testing"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.VerifyMain(m)) }
