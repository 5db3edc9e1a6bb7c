package trust_test

import (
	"os"
	"testing"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/internal/testbench/storetest"
	"github.com/pgmesh/pgmesh/store/identity/trust"
)

func TestMain(m *testing.M) { os.Exit(pgtest.VerifyMain(m)) }

// open gives a test a database of its own, and its URL.
func open(t *testing.T) (*trust.Store, string) {
	t.Helper()
	db, url := storetest.Open(t)
	return trust.New(db), url
}

func openURL(t *testing.T, url string) *trust.Store {
	t.Helper()
	return trust.New(storetest.OpenURL(t, url))
}
