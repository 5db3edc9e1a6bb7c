package admin_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/pgmesh/pgmesh/internal/access"
	"github.com/pgmesh/pgmesh/internal/ads/served"
	"github.com/pgmesh/pgmesh/internal/caller"
	"github.com/pgmesh/pgmesh/internal/rpc"
	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/internal/testbench/storetest"
	"github.com/pgmesh/pgmesh/mcp-server/admin"
	"github.com/pgmesh/pgmesh/mcp-server/clients"
	"github.com/pgmesh/pgmesh/mcp-server/feed"
	"github.com/pgmesh/pgmesh/mcp-server/identity/seal"
	"github.com/pgmesh/pgmesh/mcp-server/identity/tokens"
	"github.com/pgmesh/pgmesh/mcp-server/publish"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
	"github.com/pgmesh/pgmesh/store"
	storefeed "github.com/pgmesh/pgmesh/store/feed"
	"github.com/pgmesh/pgmesh/store/identity/callers"
	"github.com/pgmesh/pgmesh/store/resources"
)

func TestMain(m *testing.M) { os.Exit(pgtest.VerifyMain(m)) }

// bundle is the API over a real connection, beside MCP as in the program, and the store beneath it.
type bundle struct {
	t      *testing.T
	admin  adminv1.AdminServiceClient
	mcp    discoveryv3.AggregatedDiscoveryServiceClient
	store  *store.Store
	server *admin.Service

	database string
}

func startAPI(t *testing.T, database string) *bundle {
	t.Helper()
	s, err := store.Open(t.Context(), database, store.Options{})
	require.NoError(t, err)
	log, metrics, roll := slog.New(slog.DiscardHandler), prometheus.NewRegistry(), clients.NewRoll()
	p := publish.New(metrics)
	revisions := storetest.Feed(t, s)
	source := feed.New(revisions, p, seal.None, log, metrics)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	go func() { ended <- source.Run(ctx) }()

	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	api := admin.New(admin.Config{
		Store: s, Feed: revisions, News: p.Subscribe, Served: p.Served, Ready: p.Ready, Source: p.Source, Clients: roll.List, Keys: seal.None, Version: "1.2.3", Log: log,
	})
	guard := caller.NewGuard(caller.Config{Insecure: true, Tokens: tokens.New(callers.New(s), log)})
	server := rpc.NewServer(grpc.ChainUnaryInterceptor(guard.Unary, access.Unary), grpc.ChainStreamInterceptor(guard.Stream, access.Stream))
	open := func(context.Context) (*served.Subscriber, error) { return p.Subscribe(), nil }
	publish.NewServer(open, publish.Within{}, roll, log).Register(server)
	api.Register(server)
	go func() { ended <- server.Serve(l) }()
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithUserAgent("test/1"))
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, conn.Close())
		server.Stop()
		stop()
		<-ended
		<-ended
		s.Close()
	})
	return &bundle{t, adminv1.NewAdminServiceClient(conn), discoveryv3.NewAggregatedDiscoveryServiceClient(conn), s, api, database}
}

// batches returns what was stored since the empty mesh.
func (b *bundle) batches(n int) []storefeed.Batch {
	b.t.Helper()
	var batches []storefeed.Batch
	if n == 0 {
		all, err := resources.New(b.store).List(b.t.Context(), nil, "")
		require.NoError(b.t, err)
		require.Empty(b.t, all)
		return nil
	}
	ctx, cancel := context.WithCancel(b.t.Context())
	defer cancel()
	err := storetest.Feed(b.t, b.store).Follow(ctx, storefeed.At(0), func(batch storefeed.Batch) error {
		if batches = append(batches, batch); len(batches) == n {
			cancel()
		}
		return nil
	})
	require.ErrorIs(b.t, err, context.Canceled)
	return batches
}

func doc(file string, index, line int32, content string) *adminv1.Document {
	return &adminv1.Document{Content: []byte(content), File: file, Index: index, Line: line}
}

func virtualService(name, host string) string {
	return fmt.Sprintf(`{"apiVersion": "networking.istio.io/v1", "kind": "VirtualService", "metadata": {"name": %q, "labels": {"app": %q}},
		"spec": {"hosts": [%q], "http": [{"timeout": "1m", "route": [{"destination": {"host": %q}, "weight": 0}]}]}}`, name, name, host, host)
}

func ref(name string) *adminv1.ResourceRef {
	return &adminv1.ResourceRef{Group: "networking.istio.io", Kind: "VirtualService", Namespace: "default", Name: name}
}

func outcome(name string, action adminv1.Outcome_Action) *adminv1.Outcome {
	return &adminv1.Outcome{Resource: ref(name), Action: action}
}

// The routes of these tests lead nowhere. Another test covers the warnings about that.
var unwarned = protocmp.IgnoreFields(&adminv1.ApplyResponse{}, "warnings", "omitted_warnings")

func TestApplyIsOneRevisionWithItsOrigin(t *testing.T) {
	t.Parallel()
	b := startAPI(t, pgtest.New(t))

	got, err := b.admin.Apply(t.Context(), &adminv1.ApplyRequest{
		Documents: []*adminv1.Document{doc("", 0, 0, virtualService("reviews", "a")), doc("", 0, 0, virtualService("ratings", "b"))},
		Author:    "ada", Message: "first",
	})

	require.NoError(t, err)
	require.Empty(t, cmp.Diff(&adminv1.ApplyResponse{Revision: 1, Outcomes: []*adminv1.Outcome{
		outcome("reviews", adminv1.Outcome_ACTION_CREATED), outcome("ratings", adminv1.Outcome_ACTION_CREATED),
	}}, got, protocmp.Transform(), unwarned))
	batch := b.batches(1)[0]
	require.Equal(t, []string{"ada", "first", "test/1"}, []string{batch.Author, batch.Message, batch.Application})
	require.Len(t, batch.Changes, 2)
	stored := batch.Changes[1].After
	require.Equal(t, map[string]string{"app": "reviews"}, stored.Labels)
	require.JSONEq(t, `{"hosts": ["a"], "http": [{"timeout": "60s", "route": [{"destination": {"host": "a"}, "weight": 0}]}]}`, string(stored.Spec))
}

func TestApplyReturnsAnOutcomeForEachResource(t *testing.T) {
	t.Parallel()
	b := startAPI(t, pgtest.New(t))
	apply := func(dryRun bool, documents ...*adminv1.Document) *adminv1.ApplyResponse {
		got, err := b.admin.Apply(t.Context(), &adminv1.ApplyRequest{Documents: documents, DryRun: dryRun})
		require.NoError(t, err)
		return got
	}
	apply(false, doc("", 0, 0, virtualService("a", "x")), doc("", 0, 0, virtualService("b", "x")))

	planned := apply(true, doc("", 0, 0, virtualService("b", "y")), doc("", 0, 0, virtualService("c", "x")))
	changed := apply(false, doc("", 0, 0, virtualService("c", "x")), doc("", 0, 0, virtualService("b", "y")), doc("", 0, 0, virtualService("a", "x")))
	same := apply(false, doc("", 0, 0, virtualService("a", "x")))

	require.Empty(t, cmp.Diff(&adminv1.ApplyResponse{Outcomes: []*adminv1.Outcome{
		outcome("b", adminv1.Outcome_ACTION_CONFIGURED), outcome("c", adminv1.Outcome_ACTION_CREATED),
	}}, planned, protocmp.Transform(), unwarned))
	require.Empty(t, cmp.Diff(&adminv1.ApplyResponse{Revision: 2, Outcomes: []*adminv1.Outcome{
		outcome("c", adminv1.Outcome_ACTION_CREATED), outcome("b", adminv1.Outcome_ACTION_CONFIGURED), outcome("a", adminv1.Outcome_ACTION_UNCHANGED),
	}}, changed, protocmp.Transform(), unwarned))
	require.Empty(t, cmp.Diff(&adminv1.ApplyResponse{Outcomes: []*adminv1.Outcome{
		outcome("a", adminv1.Outcome_ACTION_UNCHANGED),
	}}, same, protocmp.Transform(), unwarned))
	require.Equal(t, "somebody at 127.0.0.1", b.batches(2)[1].Author)
}

// refusal returns what a refused call says in full.
func refusal(t *testing.T, err error) (*adminv1.Refusal, *errdetails.BadRequest) {
	t.Helper()
	require.Equal(t, codes.InvalidArgument, status.Code(err), "%v", err)
	details := status.Convert(err).Details()
	require.Len(t, details, 2)
	ours, ok := details[0].(*adminv1.Refusal)
	require.True(t, ok)
	everyones, ok := details[1].(*errdetails.BadRequest)
	require.True(t, ok)
	return ours, everyones
}

func TestAllViolationsAreReportedWithTheirPlaces(t *testing.T) {
	t.Parallel()
	b := startAPI(t, pgtest.New(t))

	_, err := b.admin.Apply(t.Context(), &adminv1.ApplyRequest{Documents: []*adminv1.Document{
		doc("a.yaml", 1, 1, virtualService("reviews", "a")),
		doc("a.yaml", 2, 10, "apiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata:\n  name: ratings\nspec:\n  hosts: [a]\n  http:\n  - rout: []\n"),
		doc("b.yaml", 1, 1, virtualService("reviews", "b")),
		doc("", 0, 0, `{"apiVersion": "networking.istio.io/v1", "kind": "Nothing", "metadata": {"name": "x"}, "spec": {}}`),
		doc("c.yaml", 1, 3, "# nothing"),
	}})

	ours, everyones := refusal(t, err)
	require.Empty(t, cmp.Diff([]*adminv1.Violation{
		{File: "a.yaml", Document: 2, Line: 17, Kind: "VirtualService", Namespace: "default", Name: "ratings", Path: "spec.http[0].rout", Reason: `unknown field "rout"`, Hint: `did you mean "route"?`},
		{File: "b.yaml", Document: 1, Line: 1, Kind: "VirtualService", Namespace: "default", Name: "reviews", Path: "metadata.name", Reason: "duplicate of a.yaml, document 1, line 1", Hint: "name each resource once"},
		ours.GetViolations()[2],
		{File: "c.yaml", Document: 1, Line: 3, Reason: "there are 0 resources in it, expected one"},
	}, ours.GetViolations(), protocmp.Transform()))
	require.Contains(t, ours.GetViolations()[2].GetReason(), `unknown kind "Nothing"`)
	require.Zero(t, ours.GetViolations()[2].GetLine(), "a place that nobody gave is not made up")
	require.Equal(t, "a.yaml: document 2, line 17: VirtualService default/ratings: spec.http[0].rout", everyones.GetFieldViolations()[0].GetField())
	require.Equal(t, `unknown field "rout" (did you mean "route"?)`, everyones.GetFieldViolations()[0].GetDescription())
	require.Contains(t, err.Error(), `unknown field "rout"`)
	b.batches(0)
}

func TestALargeRefusalFitsIntoHeaders(t *testing.T) {
	t.Parallel()
	b := startAPI(t, pgtest.New(t))
	documents := make([]*adminv1.Document, 1000)
	for i := range documents {
		documents[i] = doc(strings.Repeat("long/", 50)+"mesh.yaml", int32(i), 1, virtualService(fmt.Sprintf("vs-%d", i), ""))
	}

	_, err := b.admin.Apply(t.Context(), &adminv1.ApplyRequest{Documents: documents})

	ours, _ := refusal(t, err)
	require.Len(t, ours.GetViolations(), 100)
	require.GreaterOrEqual(t, int(ours.GetOmitted()), 900)
	require.Regexp(t, `and \d+ more$`, status.Convert(err).Message())
}

func TestViolationsFoundByTheDatabaseHaveTheirPlaces(t *testing.T) {
	t.Parallel()
	database := pgtest.New(t)
	b := startAPI(t, database)
	execute(t, database, `
		CREATE FUNCTION refuse_all() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
			RAISE EXCEPTION USING ERRCODE = '23514', MESSAGE = 'no', DETAIL = jsonb_build_array(jsonb_build_object(
				'kind', NEW.kind, 'namespace', NEW.namespace, 'name', NEW.name, 'path', 'spec.hosts', 'reason', 'is not yours', 'hint', 'ask'));
		END $$;
		CREATE TRIGGER refuse_all BEFORE INSERT ON mesh.resources FOR EACH ROW EXECUTE FUNCTION refuse_all()`)

	_, err := b.admin.Apply(t.Context(), &adminv1.ApplyRequest{Documents: []*adminv1.Document{doc("a.yaml", 2, 7, virtualService("reviews", "a"))}})

	ours, _ := refusal(t, err)
	require.Empty(t, cmp.Diff([]*adminv1.Violation{{
		File: "a.yaml", Document: 2, Line: 7, Kind: "VirtualService", Namespace: "default", Name: "reviews",
		Path: "spec.hosts", Reason: "is not yours", Hint: "ask",
	}}, ours.GetViolations(), protocmp.Transform()))
}

func TestDeleteIsAllOrNothing(t *testing.T) {
	t.Parallel()
	b := startAPI(t, pgtest.New(t))
	_, err := b.admin.Apply(t.Context(), &adminv1.ApplyRequest{Documents: []*adminv1.Document{doc("", 0, 0, virtualService("a", "x")), doc("", 0, 0, virtualService("b", "x"))}})
	require.NoError(t, err)

	_, err = b.admin.Delete(t.Context(), &adminv1.DeleteRequest{Resources: []*adminv1.ResourceRef{ref("a"), ref("c"), ref("d")}})
	require.Equal(t, codes.NotFound, status.Code(err))
	require.ErrorContains(t, err, "VirtualService default/c, VirtualService default/d: not found; nothing was deleted")
	require.Len(t, status.Convert(err).Details(), 2)

	got, err := b.admin.Delete(t.Context(), &adminv1.DeleteRequest{Resources: []*adminv1.ResourceRef{ref("c"), ref("a"), ref("d")}, AllowMissing: true})
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(&adminv1.DeleteResponse{
		Revision: 2, Outcomes: []*adminv1.Outcome{outcome("a", adminv1.Outcome_ACTION_DELETED)},
	}, got, protocmp.Transform()))

	got, err = b.admin.Delete(t.Context(), &adminv1.DeleteRequest{Resources: []*adminv1.ResourceRef{ref("c")}, AllowMissing: true})
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(&adminv1.DeleteResponse{}, got, protocmp.Transform()))
	left, err := resources.New(b.store).List(t.Context(), nil, "")
	require.NoError(t, err)
	require.Len(t, left, 1)
}

func TestInvalidRequestsAreRefused(t *testing.T) {
	t.Parallel()
	b := startAPI(t, pgtest.New(t))
	for name, tt := range map[string]struct {
		refs   []*adminv1.ResourceRef
		reason string
	}{
		"nothing":              {nil, "there is no resource named"},
		"an unknown kind":      {[]*adminv1.ResourceRef{{Group: "x", Kind: "Y", Name: "z"}}, `unknown kind "Y" of group "x"`},
		"no name":              {[]*adminv1.ResourceRef{ref("")}, "its name is missing"},
		"no namespace":         {[]*adminv1.ResourceRef{{Group: "networking.istio.io", Kind: "Gateway", Name: "z"}}, "its namespace is missing"},
		"a needless namespace": {[]*adminv1.ResourceRef{{Group: "gateway.networking.k8s.io", Kind: "GatewayClass", Namespace: "y", Name: "z"}}, "a GatewayClass has no namespace"},
		"the same twice":       {[]*adminv1.ResourceRef{ref("a"), ref("a")}, "is named twice"},
	} {
		_, err := b.admin.Delete(t.Context(), &adminv1.DeleteRequest{Resources: tt.refs})
		ours, _ := refusal(t, err)
		require.Contains(t, ours.GetViolations()[0].GetReason(), tt.reason, name)
	}
	for name, req := range map[string]*adminv1.ApplyRequest{
		"there is no document":   {},
		"author: must not":       {Author: "a\x00"},
		"message: must be at mo": {Message: strings.Repeat("x", 10000)},
	} {
		_, err := b.admin.Apply(t.Context(), req)
		require.Equal(t, codes.InvalidArgument, status.Code(err))
		require.ErrorContains(t, err, name)
	}
}

func TestAnUnreachableDatabaseIsUnavailable(t *testing.T) {
	t.Parallel()
	postgres := pgtest.Server(t)
	b := startAPI(t, postgres.URL)
	req := &adminv1.ApplyRequest{Documents: []*adminv1.Document{doc("", 0, 0, virtualService("a", "x"))}}
	_, err := b.admin.Apply(t.Context(), req)
	require.NoError(t, err)
	postgres.Stop()

	for range 2 { // on the connection that was, and on none
		_, err = b.admin.Apply(t.Context(), req)
		require.Equal(t, codes.Unavailable, status.Code(err), "%v", err)
		require.ErrorContains(t, err, "cannot reach its database")
		require.NotContains(t, err.Error(), "postgres://")
		require.Len(t, status.Convert(err).Details(), 1, "by which a client tells it from a server that cannot be reached")
	}

	postgres.Start()
	got, err := b.admin.Apply(t.Context(), req)
	require.NoError(t, err)
	require.Equal(t, adminv1.Outcome_ACTION_UNCHANGED, got.GetOutcomes()[0].GetAction())
}
