package serve_test

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/internal/testbench/poll"
	"github.com/pgmesh/pgmesh/mcp-server/serve"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

// A server without a database answers what it knows: what its registries have, now. What only a
// database can answer it refuses, and says so.
func TestABridgeAnswersWhatItsRegistriesHave(t *testing.T) {
	t.Parallel()
	in := newInventory(t)
	in.put("one.yaml", `services:
- {name: web, namespace: shop, labels: {tier: web}, hosts: [web.example.com], ports: [{number: 80, protocol: HTTP}]}
- {name: pay, hosts: [pay.example.com], ports: [{number: 443, protocol: HTTPS}]}`)
	server := launch(t, serve.Options{Registries: in.registries(), API: "127.0.0.1:0"})
	connect(t, server.MCP.String(), nil).next()
	conn, err := grpc.NewClient(server.MCP.String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	api := adminv1.NewAdminServiceClient(conn)
	list := func(req *adminv1.ListRequest) (names []string) {
		for {
			answer, err := api.List(t.Context(), req)
			require.NoError(t, err)
			require.Zero(t, answer.GetRevision(), "a registry has no revisions")
			for _, r := range answer.GetResources() {
				names = append(names, r.GetMetadata().GetName())
			}
			if req.PageToken = answer.GetNextPageToken(); req.GetPageToken() == "" {
				return names
			}
		}
	}
	require.Equal(t, []string{"inventory.pay", "inventory.web"}, list(&adminv1.ListRequest{PageSize: 1}))
	require.Equal(t, []string{"inventory.web"}, list(&adminv1.ListRequest{Kinds: []string{"se"}, LabelSelector: "tier=web"}))
	require.Empty(t, list(&adminv1.ListRequest{Kinds: []string{"vs"}}))
	web := &adminv1.ResourceRef{Kind: "ServiceEntry", Namespace: "shop", Name: "inventory.web"}
	found, err := api.Get(t.Context(), &adminv1.GetRequest{Resource: web})
	require.NoError(t, err)
	require.Equal(t, "inventory", found.GetResource().GetMetadata().GetAnnotations()["pgmesh.io/origin"])

	_, err = api.Get(t.Context(), &adminv1.GetRequest{Resource: &adminv1.ResourceRef{Kind: "ServiceEntry", Namespace: "shop", Name: "inventory.wbe"}})
	require.Equal(t, codes.NotFound, status.Code(err))
	_, err = api.Get(t.Context(), &adminv1.GetRequest{Resource: web, AsOf: &adminv1.GetRequest_Revision{Revision: 1}})
	require.Equal(t, codes.InvalidArgument, status.Code(err))
	require.ErrorContains(t, err, "as_of: is of a history, which a server without a database has not")
	_, err = api.List(t.Context(), &adminv1.ListRequest{Where: `$.hosts[*] == "pay.example.com"`})
	require.Equal(t, codes.InvalidArgument, status.Code(err))
	require.ErrorContains(t, err, "where: is evaluated by a database")
	_, err = api.History(t.Context(), &adminv1.HistoryRequest{})
	require.Equal(t, codes.Unimplemented, status.Code(err))
	require.ErrorContains(t, err, "this server has no database")

	poll.Eventually(t, func(ctx context.Context) error {
		return reads(ctx, server.API.String()+"/v1/resources/se/shop/inventory.web", http.StatusOK)
	})
	require.NoError(t, reads(t.Context(), server.API.String()+"/v1/resources", http.StatusOK))
	require.NoError(t, reads(t.Context(), server.API.String()+"/v1/history/se", http.StatusNotImplemented))
}

// reads reports whether the API answers so over HTTP.
func reads(ctx context.Context, what string, code int) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+what, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != code {
		return errors.New(what + " answers " + answer.Status)
	}
	return nil
}
