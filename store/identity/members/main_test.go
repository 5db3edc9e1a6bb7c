package members_test

import (
	"os"
	"testing"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/internal/testbench/storetest"
	"github.com/pgmesh/pgmesh/store/identity/members"
	"github.com/pgmesh/pgmesh/store/identity/trust"
)

func TestMain(m *testing.M) { os.Exit(pgtest.VerifyMain(m)) }

// mesh is the members of a database, and the trust, which ends memberships.
type mesh struct {
	*members.Store
	trust *trust.Store
}

// open gives a test a database of its own, and its URL.
func open(t *testing.T) (mesh, string) {
	t.Helper()
	url := pgtest.New(t)
	return openURL(t, url), url
}

func openURL(t *testing.T, url string) mesh {
	t.Helper()
	db := storetest.OpenURL(t, url)
	return mesh{members.New(db), trust.New(db)}
}
