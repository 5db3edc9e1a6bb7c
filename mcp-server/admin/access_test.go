package admin_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/internal/testbench/storetest"
	"github.com/pgmesh/pgmesh/mcp-server/identity/tokens"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
	"github.com/pgmesh/pgmesh/store/feed"
	"github.com/pgmesh/pgmesh/store/identity/callers"
)

// withToken returns a context for calls that carry a new token with these scopes.
func (b *bundle) withToken(name string, scopes ...string) context.Context {
	b.t.Helper()
	secret, _, err := tokens.Create(b.t.Context(), callers.New(b.store), name, scopes, time.Time{}, "")
	require.NoError(b.t, err)
	return metadata.AppendToOutgoingContext(b.t.Context(), "authorization", "Bearer "+secret)
}

func in(namespace, name string) *adminv1.Document {
	return doc("", 0, 0, strings.Replace(virtualService(name, name+".example.com"), `"metadata": {`, `"metadata": {"namespace": "`+namespace+`", `, 1))
}

func named(namespace, name string) *adminv1.ResourceRef {
	return &adminv1.ResourceRef{Group: "networking.istio.io", Kind: "VirtualService", Namespace: namespace, Name: name}
}

// startWithShops starts an API whose mesh has resources in two namespaces, and revisions of both.
func startWithShops(t *testing.T) *bundle {
	t.Helper()
	b := startAPI(t, pgtest.New(t))
	for _, namespace := range []string{"mine", "theirs"} {
		_, err := b.admin.Apply(t.Context(), &adminv1.ApplyRequest{Documents: []*adminv1.Document{in(namespace, "a")}, Message: "made " + namespace, Author: "ada"})
		require.NoError(t, err)
	}
	return b
}

func TestEveryCallChecksTheCallersScopes(t *testing.T) {
	t.Parallel()
	b := startWithShops(t)
	mine := b.withToken("mine", "write:mine:vs")
	reader := b.withToken("reader", "read")
	list := func(ctx context.Context, namespaces ...string) error {
		_, err := b.admin.List(ctx, &adminv1.ListRequest{Namespaces: namespaces})
		return err
	}
	stream := func(_ any, err error) error { return err }
	for name, tt := range map[string]struct {
		mine, reader codes.Code
		call         func(context.Context) error
	}{
		"get one's own": {codes.OK, codes.OK, func(ctx context.Context) error {
			return stream(b.admin.Get(ctx, &adminv1.GetRequest{Resource: named("mine", "a")}))
		}},
		"get theirs": {codes.PermissionDenied, codes.OK, func(ctx context.Context) error {
			return stream(b.admin.Get(ctx, &adminv1.GetRequest{Resource: named("theirs", "a")}))
		}},
		"get a missing": {codes.PermissionDenied, codes.NotFound, func(ctx context.Context) error {
			return stream(b.admin.Get(ctx, &adminv1.GetRequest{Resource: named("theirs", "b")}))
		}},
		"list one's own": {codes.OK, codes.OK, func(ctx context.Context) error { return list(ctx, "mine") }},
		"list all":       {codes.OK, codes.OK, func(ctx context.Context) error { return list(ctx) }},
		"list theirs":    {codes.PermissionDenied, codes.OK, func(ctx context.Context) error { return list(ctx, "mine", "theirs") }},
		"other kinds": {codes.PermissionDenied, codes.OK, func(ctx context.Context) error {
			return stream(b.admin.List(ctx, &adminv1.ListRequest{Namespaces: []string{"mine"}, Kinds: []string{"gw"}}))
		}},
		"watch": {codes.PermissionDenied, codes.OK, func(ctx context.Context) error {
			s, err := b.admin.Watch(ctx, &adminv1.WatchRequest{Namespaces: []string{"theirs"}})
			require.NoError(t, err)
			_, err = s.Recv()
			return err
		}},
		"export": {codes.PermissionDenied, codes.OK, func(ctx context.Context) error {
			s, err := b.admin.Export(ctx, &adminv1.ExportRequest{Namespaces: []string{"theirs"}})
			require.NoError(t, err)
			_, err = s.Recv()
			return err
		}},
		"history": {codes.PermissionDenied, codes.OK, func(ctx context.Context) error {
			return stream(b.admin.History(ctx, &adminv1.HistoryRequest{Namespaces: []string{"theirs"}}))
		}},
		"diff": {codes.PermissionDenied, codes.OK, func(ctx context.Context) error {
			s, err := b.admin.Diff(ctx, &adminv1.DiffRequest{Namespaces: []string{"theirs"}, From: &adminv1.DiffRequest_FromRevision{FromRevision: 0}})
			require.NoError(t, err)
			_, err = s.Recv()
			return err
		}},
		"blame": {codes.PermissionDenied, codes.OK, func(ctx context.Context) error {
			return stream(b.admin.Blame(ctx, &adminv1.BlameRequest{Resource: named("theirs", "a")}))
		}},
		"problems": {codes.PermissionDenied, codes.OK, func(ctx context.Context) error {
			return stream(b.admin.Problems(ctx, &adminv1.ProblemsRequest{Namespaces: []string{"theirs"}}))
		}},
		"confirmations": {codes.PermissionDenied, codes.OK, func(ctx context.Context) error {
			return stream(b.admin.Confirmations(ctx, &adminv1.ConfirmationsRequest{}))
		}},
		"whoami": {codes.OK, codes.OK, func(ctx context.Context) error { return stream(b.admin.WhoAmI(ctx, &adminv1.WhoAmIRequest{})) }},
		"status": {codes.OK, codes.OK, func(ctx context.Context) error { return stream(b.admin.Status(ctx, &adminv1.StatusRequest{})) }},
		"apply": {codes.PermissionDenied, codes.PermissionDenied, func(ctx context.Context) error {
			return stream(b.admin.Apply(ctx, &adminv1.ApplyRequest{Documents: []*adminv1.Document{in("mine", "x"), in("theirs", "x")}}))
		}},
		"a dry run": {codes.PermissionDenied, codes.PermissionDenied, func(ctx context.Context) error {
			return stream(b.admin.Apply(ctx, &adminv1.ApplyRequest{DryRun: true, Documents: []*adminv1.Document{in("theirs", "x")}}))
		}},
		"delete": {codes.PermissionDenied, codes.PermissionDenied, func(ctx context.Context) error {
			return stream(b.admin.Delete(ctx, &adminv1.DeleteRequest{Resources: []*adminv1.ResourceRef{named("theirs", "a")}}))
		}},
		"import": {codes.PermissionDenied, codes.PermissionDenied, func(ctx context.Context) error {
			return importDocuments(ctx, t, b, nil, in("theirs", "x"))
		}},
		"prune": {codes.PermissionDenied, codes.PermissionDenied, func(ctx context.Context) error {
			return importDocuments(ctx, t, b, &adminv1.Prune{Namespaces: []string{"theirs"}})
		}},
		"prune other kinds": {codes.PermissionDenied, codes.PermissionDenied, func(ctx context.Context) error {
			return importDocuments(ctx, t, b, &adminv1.Prune{Namespaces: []string{"mine"}})
		}},
		"restore": {codes.PermissionDenied, codes.PermissionDenied, func(ctx context.Context) error {
			return stream(b.admin.Restore(ctx, &adminv1.RestoreRequest{Namespaces: []string{"theirs"}, To: &adminv1.RestoreRequest_Revision{Revision: 1}}))
		}},
		"revert": {codes.PermissionDenied, codes.PermissionDenied, func(ctx context.Context) error {
			return stream(b.admin.Revert(ctx, &adminv1.RevertRequest{Revision: 2}))
		}},
		"confirm": {codes.PermissionDenied, codes.PermissionDenied, func(ctx context.Context) error {
			return stream(b.admin.Confirm(ctx, &adminv1.ConfirmRequest{Revision: 2}))
		}},
	} {
		require.Equal(t, tt.mine, status.Code(tt.call(mine)), "%s: %v", name, tt.call(mine))
		require.Equal(t, tt.reader, status.Code(tt.call(reader)), "%s: %v", name, tt.call(reader))
	}
	_, err := b.admin.Get(t.Context(), &adminv1.GetRequest{Resource: named("theirs", "x")})
	require.Equal(t, codes.NotFound, status.Code(err), "nothing was changed")
	newest, err := storetest.Feed(t, b.store).Newest(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 2, newest.Revision)
}

// importDocuments sends documents, and returns the first error.
func importDocuments(ctx context.Context, t *testing.T, b *bundle, prune *adminv1.Prune, documents ...*adminv1.Document) error {
	t.Helper()
	s, err := b.admin.Import(ctx)
	require.NoError(t, err)
	_ = s.Send(&adminv1.ImportRequest{Step: &adminv1.ImportRequest_Start{Start: &adminv1.ImportStart{Prune: prune}}})
	if len(documents) > 0 {
		_ = s.Send(&adminv1.ImportRequest{Step: &adminv1.ImportRequest_Portion{Portion: &adminv1.ImportPortion{Documents: documents}}})
	}
	_ = s.CloseSend()
	for {
		if _, err := s.Recv(); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
	}
}

// A server may read everything, but shows a caller only what that caller may read.
func TestCallersAreNotToldOfWhatIsHiddenFromThem(t *testing.T) {
	t.Parallel()
	b := startWithShops(t)
	claim := func(namespace, name, exportTo string) *adminv1.ApplyRequest {
		return &adminv1.ApplyRequest{Documents: []*adminv1.Document{doc("", 0, 0, `{"apiVersion": "networking.istio.io/v1", "kind": "ServiceEntry", "metadata": {"namespace": "`+namespace+`", "name": "`+name+`"},
			"spec": {"hosts": ["hidden.example.com"], "exportTo": [`+exportTo+`], "resolution": "DNS", "ports": [{"number": 80, "name": "http", "protocol": "HTTP"}]}}`)}}
	}
	_, err := b.admin.Apply(t.Context(), claim("theirs", "canary", `"theirs", "others"`))
	require.NoError(t, err)
	for name, scope := range map[string]string{"whole": "write:mine", "kinds": "write:mine:se"} {
		mine := b.withToken(name, scope)
		applied, err := b.admin.Apply(mine, claim("mine", name, `"*"`))
		require.NoError(t, err)
		require.Empty(t, applied.GetWarnings(), scope)
		seen, err := b.admin.Problems(mine, &adminv1.ProblemsRequest{})
		require.NoError(t, err)
		require.NotContains(t, seen.String(), "canary", scope)
		require.NotContains(t, seen.String(), "duplicate-service", scope)
		_, err = b.admin.Delete(t.Context(), &adminv1.DeleteRequest{Resource: &adminv1.ResourceRef{Kind: "ServiceEntry", Namespace: "mine", Name: name}})
		require.NoError(t, err)
	}
	_, err = b.admin.Apply(t.Context(), claim("mine", "one", `"*"`))
	require.NoError(t, err)
	seen, err := b.admin.Problems(t.Context(), &adminv1.ProblemsRequest{})
	require.NoError(t, err)
	require.Contains(t, seen.String(), "has another owner: ServiceEntry theirs/canary")
	applied, err := b.admin.Apply(t.Context(), claim("more", "two", `"*"`))
	require.NoError(t, err)
	require.Contains(t, applied.String(), "has another owner")
}

func TestSelectionsAreNarrowedToTheCallersNamespaces(t *testing.T) {
	t.Parallel()
	b := startWithShops(t)
	mine := b.withToken("mine", "write:mine")
	listed, err := b.admin.List(mine, &adminv1.ListRequest{})
	require.NoError(t, err)
	require.Len(t, listed.GetResources(), 1)
	past, err := b.admin.History(mine, &adminv1.HistoryRequest{})
	require.NoError(t, err)
	require.Len(t, past.GetRevisions(), 1)
	require.Equal(t, "made mine", past.GetRevisions()[0].GetMessage())
	problems, err := b.admin.Problems(mine, &adminv1.ProblemsRequest{})
	require.NoError(t, err)
	require.NotEmpty(t, problems.GetProblems())
	for _, p := range problems.GetProblems() {
		require.Equal(t, "mine", p.GetResource().GetNamespace())
	}
	restored, err := b.admin.Restore(mine, &adminv1.RestoreRequest{To: &adminv1.RestoreRequest_Revision{Revision: 0}})
	require.NoError(t, err)
	require.Len(t, restored.GetOutcomes(), 1, "what belongs to others stays")
	_, err = b.admin.Revert(mine, &adminv1.RevertRequest{Revision: restored.GetRevision()})
	require.NoError(t, err, "one may take back what one may write")
	answer, err := b.admin.Status(mine, &adminv1.StatusRequest{})
	require.NoError(t, err)
	require.Empty(t, answer.GetClients())
}

func TestRevisionsNameTheProvenAuthor(t *testing.T) {
	t.Parallel()
	b := startWithShops(t)
	_, err := b.admin.Apply(b.withToken("ci", "write:mine"), &adminv1.ApplyRequest{Documents: []*adminv1.Document{in("mine", "x")}, Author: "root"})
	require.NoError(t, err)
	require.Equal(t, []string{"ada", "ada", "ci"}, authors(b.batches(3)))
}

func authors(batches []feed.Batch) (all []string) {
	for i := range batches {
		all = append(all, batches[i].Author)
	}
	return all
}
