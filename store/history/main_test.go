package history_test

import (
	"os"
	"testing"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/internal/testbench/storetest"
	"github.com/pgmesh/pgmesh/store/history"
)

func TestMain(m *testing.M) { os.Exit(pgtest.VerifyMain(m)) }

// open gives a test the history of a database of its own, and its URL.
func open(t *testing.T) (*history.Store, string) {
	t.Helper()
	db, url := storetest.Open(t)
	return history.New(db), url
}
