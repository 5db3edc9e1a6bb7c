package trust_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/certtest"
	"github.com/pgmesh/pgmesh/internal/testbench/storetest"
	"github.com/pgmesh/pgmesh/store/identity/members"
	"github.com/pgmesh/pgmesh/store/identity/trust"
)

func TestProblemsOfWhoBelongsToTheMesh(t *testing.T) {
	t.Parallel()
	y := storetest.NewTenancy(t)
	database, tenant := storetest.OpenURL(t, y.URL), y.Tenant("tenant")
	s, joining := trust.New(database), members.New(database)
	const codes = "SELECT severity || ' ' || code || ' ' || kind || ' ' || namespace || '/' || name FROM mesh.problems WHERE api_group = 'identity.pgmesh.io' ORDER BY 1"
	_, err := s.FirstAuthority(t.Context(), certtest.NewAuthority(t).PEM, sealed, "mcp-server")
	require.NoError(t, err)
	require.Empty(t, storetest.Collect[string](y.Owner, codes), "it was made for a day, and has most of it left")
	y.Owner.Exec("UPDATE mesh_internal.authority_keys SET not_before = now() - interval '20 hours', not_after = now() + interval '7 hours'")
	require.Equal(t, []string{"warning authority-expires Authority /1"}, storetest.Collect[string](y.Owner, codes))
	y.Owner.Exec("UPDATE mesh_internal.authority_keys SET not_after = now() - interval '1 hour'")
	require.Equal(t, []string{"error authority-expired Authority /1"}, storetest.Collect[string](y.Owner, codes))
	y.Owner.Exec("UPDATE mesh_internal.authority_keys SET not_before = now() - interval '9 years', not_after = now() + interval '31 days'")
	require.Empty(t, storetest.Collect[string](y.Owner, codes))

	require.NoError(t, s.TrustFederated(t.Context(), "partner.example", certtest.NewAuthority(t).PEM, "ada"))
	require.Equal(t, []string{"warning federated-trust-expires FederatedTrust /partner.example"}, storetest.Collect[string](y.Owner, codes))
	require.Regexp(t, `^the roots of the other mesh expire at \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$`, storetest.Value[string](y.Owner, "SELECT message FROM mesh.problems WHERE kind = 'FederatedTrust'"))
	_, err = s.DistrustFederated(t.Context(), "partner.example", "ada")
	require.NoError(t, err)

	y.Owner.Exec(`INSERT INTO mesh.workload_groups (namespace, name, spec) VALUES ('a', 'cart', '{"template": {}}'), ('b', 'cart', '{"template": {}}')`)
	for _, namespace := range []string{"a", "b"} {
		token := members.JoinToken{Name: "cart-" + namespace, Hash: storetest.HashOf(namespace), Namespace: namespace, WorkloadGroup: "cart", MaxUses: 1, Expires: time.Now().Add(time.Hour)}
		require.NoError(t, joining.CreateJoinToken(t.Context(), token))
	}
	issuer := cloud()
	issuer.WorkloadGroup = "cart"
	require.NoError(t, s.PutJoinIssuer(t.Context(), issuer, "ada"))
	require.Equal(t, []string{"warning unknown-workload-group JoinIssuer /cloud"}, storetest.Collect[string](y.Owner, codes))
	require.Equal(t, []string{
		"JoinToken a/cart-a: the WorkloadGroup a/cart that it is for is gone, and nobody can join with it",
		"JoinToken b/cart-b: the WorkloadGroup b/cart that it is for is gone, and nobody can join with it",
	}, y.Owner.Notices("DELETE FROM mesh.workload_groups"))
	require.Equal(t, []string{"warning unknown-workload-group JoinToken a/cart-a"}, storetest.Collect[string](tenant, codes))
	require.Len(t, storetest.Collect[string](y.Owner, codes), 3)
	revoked, err := joining.RevokeJoinToken(t.Context(), "cart-a", "ada")
	require.NoError(t, err)
	require.True(t, revoked)
	require.Empty(t, storetest.Collect[string](tenant, codes))
}
