package store_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/internal/testbench/storetest"
	"github.com/pgmesh/pgmesh/store/migration"
)

// owned is a database whose mesh belongs to a role that is no superuser, as in production; url is that
// role's.
func owned(t *testing.T) (admin tenancy, owner session, url string) {
	t.Helper()
	admin.url = pgtest.Empty(t)
	admin.owner = connect(t, admin.url)
	role := admin.role("owner")
	admin.owner.Exec("GRANT CREATE ON DATABASE " + value[string](admin.owner, "SELECT current_database()") + " TO " + role)
	url = admin.login(role)
	require.NoError(t, migration.Up(t.Context(), url))
	return admin, connect(t, url), url
}

// The owner has all by owning the mesh. A grant would add nothing, and taking one back would lock it out.
func TestTheOwnerIsGrantedAndRevokedNothing(t *testing.T) {
	t.Parallel()
	admin, owner, url := owned(t)
	role := value[string](owner, "SELECT current_user")
	for _, by := range []session{owner, admin.owner} {
		for call, ending := range map[string]string{
			"grant_namespace($1, 'a', 'write')": "needs no grant", "grant_server($1)": "needs no grant", "grant_secrets($1, '*', 'read')": "needs no grant",
			"revoke_all($1)": "has what it has by that", "revoke_namespace($1, '*')": "has what it has by that", "revoke_secrets($1, 'a')": "has what it has by that",
		} {
			refused := by.Refused("SELECT mesh."+call, role)
			require.Equal(t, role+" owns the mesh and "+ending, refused.Message)
			require.Equal(t, "0LP01", refused.Code)
		}
	}
	owner.Put("x", "a")
	require.Empty(t, collect[string](owner, "SELECT role FROM mesh.grants"))

	member, super := admin.role("member"), admin.role("super", "SUPERUSER")
	admin.owner.Exec("GRANT " + role + " TO " + member)
	require.Equal(t, []string{"the role " + member + " may do everything without it, as a member of " + role + ", which owns the mesh"},
		owner.Notices("SELECT mesh.grant_namespace('"+member+"', 'a', 'read')"))
	require.Equal(t, []string{"the role " + super + " may do everything without it, as a superuser"}, owner.Notices("SELECT mesh.grant_server('"+super+"')"))
	for i, of := range []string{member, super} {
		require.Equal(t, 1, value[int](owner, "SELECT mesh.revoke_all($1)", of))
		session{admin.as(of).Session}.Put("x", "a"+fmt.Sprint(i))
	}
	require.NoError(t, migration.Up(t.Context(), url))
}

// Earlier programs let the owner be locked out. A migration lets it in again, and leaves out what it was
// granted before it became the owner.
func TestAMigrationGivesTheOwnerItsOwnBack(t *testing.T) {
	t.Parallel()
	_, owner, url := owned(t)
	role := value[string](owner, "SELECT current_user")
	owner.Exec("INSERT INTO mesh_internal.namespace_grants (role, namespace, privilege, granted_by) VALUES ($1, '*', 'server', $1)", role)
	owner.Exec("REVOKE ALL ON ALL TABLES IN SCHEMA mesh, mesh_internal FROM " + role + "; REVOKE ALL ON ALL ROUTINES IN SCHEMA mesh, mesh_internal FROM " + role +
		"; REVOKE ALL ON SCHEMA mesh, mesh_internal FROM " + role)
	require.Equal(t, "42501", owner.Refused("SELECT FROM mesh.resources").Code)
	require.NoError(t, migration.UpTelling(t.Context(), url, storetest.Quietly))
	owner.Put("x", "a")
	require.Empty(t, collect[string](owner, whatDiffers))
}
