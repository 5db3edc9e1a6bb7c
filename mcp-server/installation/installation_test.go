package installation_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/internal/testbench/poll"
	"github.com/pgmesh/pgmesh/internal/testbench/storetest"
	"github.com/pgmesh/pgmesh/mcp-server/installation"
)

func TestMain(m *testing.M) { os.Exit(pgtest.VerifyMain(m)) }

// What somebody has changed is told until it is as it was.
func TestChangesAreToldOf(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	db := storetest.Connect(t, url)
	watch := installation.New(storetest.OpenURL(t, url), installation.Options{Interval: time.Millisecond}, slog.New(slog.DiscardHandler))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- watch.Run(ctx) }()
	defer func() {
		stop()
		require.ErrorIs(t, <-ended, context.Canceled)
	}()
	require.Empty(t, watch.About())

	db.Exec("ALTER TABLE mesh.resources ADD a int, ADD b int, ADD c int, ADD d int")
	const told = "somebody has changed the schema of the database: column mesh.resources.a, column mesh.resources.b, column mesh.resources.c, and 1 more" +
		" (mesh.check_installation() says how, and what to do)"
	says := func(text string) {
		poll.Eventually(t, func(context.Context) error {
			if about := watch.About(); about != text {
				return fmt.Errorf("it says %q", about)
			}
			return nil
		})
	}
	says(told)
	db.Exec("ALTER TABLE mesh.resources DROP a, DROP b, DROP c, DROP d")
	says("")

	role := storetest.Value[string](db, "SELECT current_database()") + "_passing"
	db.Exec("CREATE ROLE " + role)
	db.Exec("SELECT mesh.grant_namespace($1, 'a', 'read')", role)
	db.Exec("DROP OWNED BY " + role + "; DROP ROLE " + role)
	says("grants give nothing, or less than they should, to roles: " + role + " (mesh.check_installation() says how, and what to do)")

	db.Put("x", "a")
	db.Exec("SET session_replication_role = replica; UPDATE mesh.resources SET labels = '{\"a\": \"b\"}'; RESET session_replication_role")
	says("grants give nothing, or less than they should, to roles: " + role + "; resources were changed or deleted with triggers off: VirtualService default/x" +
		" (mesh.check_installation() says how, and what to do)")
	db.Exec("SELECT mesh.revoke_all($1), mesh.adopt()", role)
	says("")
}
