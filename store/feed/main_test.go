package feed_test

import (
	"os"
	"testing"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/internal/testbench/storetest"
	"github.com/pgmesh/pgmesh/store/feed"
)

func TestMain(m *testing.M) { os.Exit(pgtest.VerifyMain(m)) }

// open gives a test the feed of a database of its own, and its URL.
func open(t *testing.T) (*feed.Feed, string) {
	t.Helper()
	db, url := storetest.Open(t)
	return storetest.Feed(t, db), url
}
