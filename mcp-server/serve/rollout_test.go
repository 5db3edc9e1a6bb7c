package serve_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/pgmesh/pgmesh/identity"
	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/mcp-server/serve"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
	rolloutv1 "github.com/pgmesh/pgmesh/proto/pgmesh/rollout/v1"
)

// report reports a proxy in a stream of its own.
func report(t *testing.T, address string, by ...grpc.DialOption) error {
	t.Helper()
	conn, err := grpc.NewClient(address, by...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	stream, err := rolloutv1.NewRolloutServiceClient(conn).Report(t.Context())
	require.NoError(t, err)
	_ = stream.Send(&rolloutv1.ReportRequest{Discovery: "eu", Number: 1, Revision: 3, Proxies: []*rolloutv1.Proxy{{
		Stream: 1, State: rolloutv1.Proxy_STATE_IN_STEP,
		Description: &rolloutv1.Description{Node: "sidecar", Proxy: "vm-1", Namespace: "shop", Role: "sidecar", Connected: timestamppb.Now()},
	}}})
	_, err = stream.Recv()
	return err
}

func TestDiscoveriesReportProxiesAndNobodyElse(t *testing.T) {
	t.Parallel()
	m := found(t, pgtest.New(t), nil)
	require.NoError(t, report(t, m.MCP.String(), m.credentials(m.join(identity.Discovery, "eu"))))
	err := report(t, m.MCP.String(), m.credentials(m.join(identity.MCPServer, "relay")))
	require.Equal(t, codes.PermissionDenied, status.Code(err))
	require.ErrorContains(t, err, "it has the scopes read")
}

func TestProxiesAreReportedWithoutTLSAndNotAtARelay(t *testing.T) {
	t.Parallel()
	server := launch(t, serve.Options{Database: pgtest.New(t)})
	require.NoError(t, report(t, server.MCP.String(), plaintext...))
	_, metrics := server.get("/metrics")
	require.Contains(t, metrics, `pgmesh_mcp_server_rollout_reports 1`)

	relay := launch(t, serve.Options{Upstream: serve.Upstream{Addresses: []string{server.MCP.String()}}})
	err := report(t, relay.MCP.String(), plaintext...)
	require.Equal(t, codes.FailedPrecondition, status.Code(err))
	require.ErrorContains(t, err, "this server is a relay: it has no database to read from or to change. Ask its upstream, "+server.MCP.String())
}

func TestWhoMayListProxies(t *testing.T) {
	t.Parallel()
	f := startSecure(t, nil)
	require.NoError(t, report(t, f.MCP.String(), f.withToken(f.token("eu", "register"))...))
	of := func(name string, scopes ...string) adminv1.ProxyServiceClient {
		return adminv1.NewProxyServiceClient(f.dial(f.withToken(f.token(name, scopes...))))
	}
	for _, may := range []adminv1.ProxyServiceClient{of("reader", "read:*"), of("shop", "read:shop")} {
		resp, err := may.ListProxies(t.Context(), &adminv1.ListProxiesRequest{})
		require.NoError(t, err)
		require.Len(t, resp.GetProxies(), 1)
		require.Equal(t, "vm-1", resp.GetProxies()[0].GetProxy())
		for _, other := range []*adminv1.ListProxiesRequest{{Proxy: "vm-2"}, {State: "silent"}} {
			resp, err = may.ListProxies(t.Context(), other)
			require.NoError(t, err)
			require.Empty(t, resp.GetProxies())
		}
		_, err = may.ListProxies(t.Context(), &adminv1.ListProxiesRequest{State: "well"})
		requireCode(t, codes.InvalidArgument, `a proxy is never "well"`, err)
	}
	bank := of("bank", "read:bank")
	resp, err := bank.ListProxies(t.Context(), &adminv1.ListProxiesRequest{})
	require.NoError(t, err)
	require.Empty(t, resp.GetProxies(), "those of others are not told")
	_, err = bank.ListProxies(t.Context(), &adminv1.ListProxiesRequest{Namespaces: []string{"shop"}})
	requireCode(t, codes.PermissionDenied, `may not see the proxies of the namespace "shop"`, err)
	_, err = of("kind", "read:shop:vs").ListProxies(t.Context(), &adminv1.ListProxiesRequest{})
	requireCode(t, codes.PermissionDenied, "may not see the proxies", err)
}

func TestWhoMayWaitForProxies(t *testing.T) {
	t.Parallel()
	f := startSecure(t, nil)
	require.NoError(t, report(t, f.MCP.String(), f.withToken(f.token("eu", "register"))...))
	as := func(name string, scopes ...string) (*adminv1.WaitUntilRunResponse, error) {
		stream, err := adminv1.NewProxyServiceClient(f.dial(f.withToken(f.token(name, scopes...)))).WaitUntilRun(t.Context(), &adminv1.WaitUntilRunRequest{})
		require.NoError(t, err)
		return stream.Recv()
	}
	for _, who := range []struct {
		name, scope string
		sees        int32
	}{{"reader", "read:*", 1}, {"shop", "write:shop", 1}, {"bank", "read:bank", 0}} {
		resp, err := as(who.name, who.scope)
		require.NoError(t, err)
		require.Equal(t, who.sees, resp.GetConnected(), who.name)
		require.Equal(t, adminv1.WaitUntilRunResponse_OUTCOME_DONE, resp.GetOutcome())
	}
	_, err := as("kind", "read:shop:vs")
	requireCode(t, codes.PermissionDenied, "may not see the proxies", err)
}

// What proxies of others refuse and run is not told, nor what of others that was made from.
func TestWhoMayListWhatProxiesDo(t *testing.T) {
	t.Parallel()
	f := startSecure(t, nil)
	conn := f.dial(f.withToken(f.token("eu", "register")))
	stream, err := rolloutv1.NewRolloutServiceClient(conn).Report(t.Context())
	require.NoError(t, err)
	vs := func(namespace string) *rolloutv1.Source {
		return &rolloutv1.Source{ApiGroup: "networking.istio.io", Kind: "VirtualService", Namespace: namespace, Name: "hidden"}
	}
	require.NoError(t, stream.Send(&rolloutv1.ReportRequest{Discovery: "eu", Number: 1, Proxies: []*rolloutv1.Proxy{{
		Stream: 1, State: rolloutv1.Proxy_STATE_REFUSED, Refused: 1, Refusals: []*rolloutv1.Refusal{{Resource: "l", Reason: "r", Sources: []*rolloutv1.Source{vs("bank"), vs("")}}},
		Description: &rolloutv1.Description{Node: "sidecar", Proxy: "vm-1", Namespace: "shop", Role: "sidecar", Connected: timestamppb.Now()},
	}}}))
	_, err = stream.Recv()
	require.NoError(t, err)
	of := func(name string, scopes ...string) adminv1.ProxyServiceClient {
		return adminv1.NewProxyServiceClient(f.dial(f.withToken(f.token(name, scopes...))))
	}
	for _, who := range []struct {
		name, scope       string
		refusals, sources int
	}{{"reader", "read:*", 1, 2}, {"shop", "read:shop", 1, 0}, {"bank", "read:bank", 0, 0}} {
		resp, err := of(who.name, who.scope).ListRefusals(t.Context(), &adminv1.ListRefusalsRequest{})
		require.NoError(t, err)
		require.Len(t, resp.GetRefusals(), who.refusals, who.name)
		for _, r := range resp.GetRefusals() {
			require.Len(t, r.GetSources(), who.sources, who.name)
			require.Equal(t, who.sources > 0, r.GetResource() != nil, who.name)
		}
	}
	for name, may := range map[string]adminv1.ProxyServiceClient{"others": of("others", "read:bank"), "kind": of("kind", "read:shop:vs")} {
		_, err := may.ListRefusals(t.Context(), &adminv1.ListRefusalsRequest{Namespaces: []string{"shop"}})
		requireCode(t, codes.PermissionDenied, "may not see the proxies", err)
		_, err = may.ListRollouts(t.Context(), &adminv1.ListRolloutsRequest{Namespaces: []string{"shop"}})
		requireCode(t, codes.PermissionDenied, "may not see the proxies", err)
		_, err = may.ListStatus(t.Context(), &adminv1.ListStatusRequest{Namespaces: []string{"shop"}})
		requireCode(t, codes.PermissionDenied, "may not see what became of resources", err)
		_, err = may.ListRunners(t.Context(), &adminv1.ListRunnersRequest{Resource: &adminv1.ResourceRef{Kind: "vs", Namespace: "shop", Name: "hidden"}})
		requireCode(t, codes.PermissionDenied, "may not see the proxies", err)
		watching, err := may.WatchRollouts(t.Context(), &adminv1.WatchRolloutsRequest{Namespaces: []string{"shop"}})
		require.NoError(t, err, name)
		_, err = watching.Recv()
		requireCode(t, codes.PermissionDenied, "may not see the proxies", err)
	}
}
