package callers_test

import (
	"os"
	"testing"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/internal/testbench/storetest"
	"github.com/pgmesh/pgmesh/store/identity/callers"
)

func TestMain(m *testing.M) { os.Exit(pgtest.VerifyMain(m)) }

func openURL(t *testing.T, url string) *callers.Store {
	t.Helper()
	return callers.New(storetest.OpenURL(t, url))
}
