package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
)

// The switch is for the whole mesh, so this test has its own.
func TestDefaultDenyLetsInWhomAPolicyAllows(t *testing.T) {
	t.Parallel()
	database := pgtest.New(t)
	control := newStack(t, database)
	require.NoError(t, control.Start(t.Context()))
	m := meshOn(t, control, database)
	g := newGuarded(m, newBackend(t, "app", nil), newGreeter(t, "ledger"))

	g.setDefaultDeny(true)
	closes(t, g.tcp)
	eventually(t, func(ctx context.Context) error {
		if a, err := send(ctx, g.client, address(g.web), request{}); err == nil {
			return fmt.Errorf("a client without a certificate is answered %d", a.status)
		}
		return nil
	})
	// A client that needs no certificate still needs a policy that allows it.
	g.commit("apiVersion: security.istio.io/v1\nkind: PeerAuthentication\nmetadata: {name: plaintext}\nspec: {mtls: {mode: PERMISSIVE}}")
	g.becomes(http.StatusForbidden, request{path: "/public/a"})
	closes(t, g.tcp)
	g.commit(policy("allow", "rules: [{to: [{operation: {paths: ['/public/*']}}]}]"))
	g.becomes(http.StatusOK, request{path: "/public/a"})
	g.is(http.StatusForbidden, request{path: "/private"})

	g.transaction(func(tx pgx.Tx) { g.remove(tx, "AuthorizationPolicy", "allow") })
	g.becomes(http.StatusForbidden, request{path: "/public/a"})
	g.setDefaultDeny(false)
	g.becomes(http.StatusOK, request{path: "/private"})
	eventually(t, func(ctx context.Context) error {
		if _, err := converse(ctx, address(g.tcp)); err != nil {
			return errors.New("connections are still refused")
		}
		return nil
	})
}

func (m *mesh) setDefaultDeny(enabled bool) {
	m.t.Helper()
	m.transaction(func(tx pgx.Tx) {
		_, err := tx.Exec(m.t.Context(), "SELECT mesh.set_default_deny($1)", enabled)
		require.NoError(m.t, err)
	})
}
