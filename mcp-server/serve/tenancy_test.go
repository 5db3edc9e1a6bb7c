package serve_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-server/serve"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
	"github.com/pgmesh/pgmesh/store/resources"
)

func TestWhoMayWorkOnQuotasAndHosts(t *testing.T) {
	t.Parallel()
	f := startSecure(t, func(*serve.Options) {})
	of := func(name string, scopes ...string) adminv1.TenancyServiceClient {
		return adminv1.NewTenancyServiceClient(f.dial(f.withToken(f.token(name, scopes...))))
	}
	admin, writer, shop, reader := of("admin", "admin"), of("writer", "write:*"), of("shop", "write:shop"), of("reader", "read:shop")
	entry, _ := kinds.Lookup("networking.istio.io", "ServiceEntry")
	for _, namespace := range []string{"shop", "bank"} {
		_, err := resources.New(f.store).Apply(t.Context(), resources.Apply{Upserts: []resources.Upsert{{
			Key:  kinds.Key{Kind: entry, Namespace: namespace, Name: "e"},
			Spec: []byte(`{"hosts": ["e.` + namespace + `.example"], "resolution": "NONE", "ports": [{"number": 80, "name": "http", "protocol": "HTTP"}]}`),
		}}})
		require.NoError(t, err)
	}
	most := int64(7)
	set := &adminv1.SetQuotaRequest{Namespace: "shop", MaxResources: &most}
	for _, may := range []adminv1.TenancyServiceClient{admin, writer} {
		_, err := may.SetQuota(t.Context(), set)
		require.NoError(t, err)
	}
	_, err := admin.GrantHosts(t.Context(), &adminv1.GrantHostsRequest{Namespace: "shop", Patterns: []string{"*.shop.example"}})
	require.NoError(t, err)
	_, err = admin.GrantHosts(t.Context(), &adminv1.GrantHostsRequest{Namespace: "bank", Patterns: []string{"*.bank.example"}})
	require.NoError(t, err)
	for _, may := range []adminv1.TenancyServiceClient{shop, reader} {
		_, err := may.SetQuota(t.Context(), set)
		requireCode(t, codes.PermissionDenied, "", err)
		quotas, err := may.ListQuotas(t.Context(), &adminv1.ListQuotasRequest{})
		require.NoError(t, err)
		require.Len(t, quotas.GetQuotas(), 1, "those of others are not told")
		require.Equal(t, "shop", quotas.GetQuotas()[0].GetNamespace())
		require.Equal(t, most, quotas.GetQuotas()[0].GetMaxResources())
		_, err = may.ListQuotas(t.Context(), &adminv1.ListQuotasRequest{Namespaces: []string{"bank"}})
		requireCode(t, codes.PermissionDenied, `may not see the quotas of the namespace "bank"`, err)
		grants, err := may.ListHostGrants(t.Context(), &adminv1.ListHostGrantsRequest{})
		require.NoError(t, err)
		require.Len(t, grants.GetGrants(), 1)
		require.Equal(t, "*.shop.example", grants.GetGrants()[0].GetPattern())
	}
	for _, not := range []adminv1.TenancyServiceClient{writer, shop, reader} {
		_, err = not.GrantHosts(t.Context(), &adminv1.GrantHostsRequest{Namespace: "shop", Patterns: []string{"*"}})
		requireCode(t, codes.PermissionDenied, "", err)
		_, err = not.RevokeHosts(t.Context(), &adminv1.RevokeHostsRequest{Patterns: []string{"*.bank.example"}})
		requireCode(t, codes.PermissionDenied, "", err)
	}
	_, err = admin.GrantHosts(t.Context(), &adminv1.GrantHostsRequest{Namespace: "shop"})
	requireCode(t, codes.InvalidArgument, "patterns: name a host", err)
	_, err = admin.SetQuota(t.Context(), &adminv1.SetQuotaRequest{Namespace: "shop"})
	requireCode(t, codes.InvalidArgument, "say what to set", err)
	list, err := admin.ListHostGrants(t.Context(), &adminv1.ListHostGrantsRequest{})
	require.NoError(t, err)
	require.Equal(t, "admin", list.GetGrants()[0].GetGrantedBy())
}
