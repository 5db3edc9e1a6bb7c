package sharing_test

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/mcp-server/sharing"
)

func TestMain(m *testing.M) { os.Exit(pgtest.VerifyMain(m)) }

// shared is a database with a tenant.
func shared(t *testing.T) (url, tenant string, owner *pgx.Conn) {
	t.Helper()
	url = pgtest.New(t)
	owner, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	tenant = owner.Config().Database + "_tenant"
	t.Cleanup(func() {
		_, err := owner.Exec(context.Background(), "DROP OWNED BY "+tenant+"; DROP ROLE "+tenant)
		require.NoError(t, err)
		require.NoError(t, owner.Close(context.Background()))
	})
	_, err = owner.Exec(t.Context(), "CREATE ROLE "+tenant+" LOGIN PASSWORD 'secret'; SELECT mesh.grant_namespace('"+tenant+"', 'a', 'write')")
	require.NoError(t, err)
	return url, tenant, owner
}

func check(t *testing.T, url string) []sharing.Finding {
	t.Helper()
	found, err := sharing.Check(t.Context(), url)
	require.NoError(t, err)
	return found
}

func errorsAmong(found []sharing.Finding) (what []string) {
	for _, f := range found {
		if f.Severity == sharing.Error {
			what = append(what, f.What)
		}
	}
	return what
}

// After the statements of all findings were run, there are no findings.
func TestEachFindingIsGoneWhenItsStatementWasRun(t *testing.T) {
	t.Parallel()
	url, tenant, owner := shared(t)
	_, err := owner.Exec(t.Context(), "GRANT CREATE ON SCHEMA mesh, mesh_internal TO "+tenant+"; GRANT USAGE ON SCHEMA mesh, mesh_internal TO PUBLIC; CREATE TABLE mesh.theirs (); ALTER TABLE mesh.theirs OWNER TO "+tenant)
	require.NoError(t, err)
	found := check(t, url)
	require.Len(t, errorsAmong(found), 5)
	for _, name := range []string{"everybody may connect", "everybody may make temporary", "as many connections", "idle_in_transaction_session_timeout", "lock_timeout", "statement_timeout"} {
		require.True(t, slices.ContainsFunc(found, func(f sharing.Finding) bool { return strings.Contains(f.What, name) }), name)
	}
	for _, f := range found {
		require.NotEmpty(t, f.Why)
		if strings.Contains(f.Fix, "SYSTEM") { // which is for the whole server
			continue
		}
		_, err := owner.Exec(t.Context(), f.Fix)
		require.NoError(t, err, f.Fix)
	}
	require.Empty(t, slices.DeleteFunc(check(t, url), func(f sharing.Finding) bool { return strings.Contains(f.Fix, "SYSTEM") }))
}

func TestTenantsWhoMayDoEverythingAreErrors(t *testing.T) {
	t.Parallel()
	url, tenant, owner := shared(t)
	require.Empty(t, errorsAmong(check(t, url)))
	for _, give := range []string{"ALTER ROLE " + tenant + " SUPERUSER", "ALTER ROLE " + tenant + " BYPASSRLS", "GRANT " + owner.Config().User + " TO " + tenant} {
		_, err := owner.Exec(t.Context(), give)
		require.NoError(t, err)
		found := check(t, url)
		require.Len(t, errorsAmong(found), 1, give)
		require.Contains(t, found[0].What, tenant)
		_, err = owner.Exec(t.Context(), found[0].Fix)
		require.NoError(t, err, found[0].Fix)
		require.Empty(t, errorsAmong(check(t, url)), give)
	}
}

func TestATenantIsToldToAskTheOwner(t *testing.T) {
	t.Parallel()
	_, tenant, owner := shared(t)
	c := owner.Config()
	login := pgtest.Login{Host: c.Host, Port: c.Port, Database: c.Database, User: tenant, Password: "secret"}
	_, err := sharing.Check(t.Context(), login.URL())
	require.ErrorContains(t, err, "connect as the owner")
}
