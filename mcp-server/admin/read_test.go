package admin_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/internal/testbench/storetest"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

// apply stores virtual services, each in the namespace that comes before its name, with its host.
func (b *bundle) apply(hosts map[string]string) int64 {
	b.t.Helper()
	req := &adminv1.ApplyRequest{Author: "ada", Message: "because"}
	for name, host := range hosts {
		req.Documents = append(req.Documents, doc("", 0, 0, inNamespace(name, host)))
	}
	got, err := b.admin.Apply(b.t.Context(), req)
	require.NoError(b.t, err)
	return got.GetRevision()
}

func inNamespace(name, host string) string {
	var namespace, short string
	if _, err := fmt.Sscanf(name, "%2s/%s", &namespace, &short); err != nil {
		return virtualService(name, host)
	}
	return fmt.Sprintf(`{"apiVersion": "networking.istio.io/v1", "kind": "VirtualService", "metadata": {"namespace": %q, "name": %q},
		"spec": {"hosts": [%q], "http": [{"route": [{"destination": {"host": %[3]q}}]}]}}`, namespace, short, host)
}

func refIn(namespace, name string) *adminv1.ResourceRef {
	return &adminv1.ResourceRef{Group: "networking.istio.io", Kind: "VirtualService", Namespace: namespace, Name: name}
}

// badFields are the fields that a refusal names.
func badFields(t *testing.T, err error) []string {
	t.Helper()
	require.Equal(t, codes.InvalidArgument, status.Code(err), "%v", err)
	var fields []string
	for _, d := range status.Convert(err).Details() {
		if bad, is := d.(*errdetails.BadRequest); is {
			for _, v := range bad.GetFieldViolations() {
				fields = append(fields, v.GetField())
			}
		}
	}
	return fields
}

func TestGetReturnsAResourceAsPeopleWriteIt(t *testing.T) {
	t.Parallel()
	b := startAPI(t, pgtest.New(t))
	b.apply(map[string]string{"reviews": "a"})
	b.apply(map[string]string{"reviews": "b"})

	for _, asked := range []*adminv1.ResourceRef{ref("reviews"), {Kind: "vs", Namespace: "default", Name: "reviews"}} {
		got, err := b.admin.Get(t.Context(), &adminv1.GetRequest{Resource: asked})
		require.NoError(t, err)
		m := got.GetResource().GetMetadata()
		require.WithinDuration(t, time.Now(), m.GetUpdateTimestamp().AsTime(), time.Minute)
		m.CreationTimestamp, m.UpdateTimestamp = nil, nil
		text, err := protojson.Marshal(got.GetResource())
		require.NoError(t, err)
		require.JSONEq(t, `{"apiVersion": "networking.istio.io/v1", "kind": "VirtualService",
			"metadata": {"name": "reviews", "namespace": "default", "labels": {"app": "reviews"}, "generation": 2, "resourceVersion": "2"},
			"spec": {"hosts": ["b"], "http": [{"timeout": "60s", "route": [{"destination": {"host": "b"}, "weight": 0}]}]}}`, string(text))
	}
	then, err := b.admin.Get(t.Context(), &adminv1.GetRequest{Resource: ref("reviews"), AsOf: &adminv1.GetRequest_Revision{Revision: 1}})
	require.NoError(t, err)
	require.Equal(t, "a", then.GetResource().GetSpec().GetFields()["hosts"].GetListValue().GetValues()[0].GetStringValue())
	require.Equal(t, int64(1), then.GetResource().GetMetadata().GetResourceVersion())
}

func TestGetRefusesInvalidRequests(t *testing.T) {
	t.Parallel()
	b := startAPI(t, pgtest.New(t))
	b.apply(map[string]string{"reviews": "a", "s1/cart": "c"})
	get := func(r *adminv1.ResourceRef) error {
		_, err := b.admin.Get(t.Context(), &adminv1.GetRequest{Resource: r})
		return err
	}

	err := get(ref("revews"))
	require.Equal(t, codes.NotFound, status.Code(err))
	require.ErrorContains(t, err, `VirtualService default/revews: not found (did you mean "reviews"?)`)
	require.Empty(t, cmp.Diff(&errdetails.ResourceInfo{
		ResourceType: "networking.istio.io/v1/VirtualService", ResourceName: "default/revews", Description: `not found; did you mean "reviews"?`,
	}, status.Convert(err).Details()[0], protocmp.Transform()))
	require.ErrorContains(t, get(ref("cart")), `there is one in the namespace "s1"`)
	require.Equal(t, []string{"resource"}, badFields(t, get(nil)))
	require.Equal(t, []string{"resource"}, badFields(t, get(&adminv1.ResourceRef{Kind: "vz", Namespace: "default", Name: "x"})))
	require.ErrorContains(t, get(&adminv1.ResourceRef{Kind: "virtualservics", Namespace: "default", Name: "x"}), "VirtualService")
	require.Equal(t, []string{"resource"}, badFields(t, get(ref("a\x00"))))
	_, err = b.admin.Get(t.Context(), &adminv1.GetRequest{Resource: ref("reviews"), AsOf: &adminv1.GetRequest_Revision{Revision: 99}})
	require.Equal(t, codes.OutOfRange, status.Code(err))
	require.ErrorContains(t, err, "the newest revision is 1")
}

func (b *bundle) listAll(req *adminv1.ListRequest, between func()) (names []string, revision int64) {
	b.t.Helper()
	for {
		page, err := b.admin.List(b.t.Context(), req)
		require.NoError(b.t, err)
		for _, r := range page.GetResources() {
			names = append(names, r.GetMetadata().GetNamespace()+"/"+r.GetMetadata().GetName())
		}
		if req.PageToken = page.GetNextPageToken(); req.GetPageToken() == "" {
			return names, page.GetRevision()
		}
		between()
	}
}

func TestAllPagesAreOfOneRevision(t *testing.T) {
	t.Parallel()
	b := startAPI(t, pgtest.New(t))
	b.apply(map[string]string{"s1/a": "x", "s1/b": "x", "s1/c": "x", "s2/a": "y", "s2/d": "y"})
	n := 0
	names, revision := b.listAll(&adminv1.ListRequest{PageSize: 2}, func() {
		n++
		b.apply(map[string]string{"s1/c": fmt.Sprint("changed-", n), fmt.Sprint("s1/new-", n): "z"})
		_, err := b.admin.Delete(t.Context(), &adminv1.DeleteRequest{Resources: []*adminv1.ResourceRef{refIn("s2", "d")}, AllowMissing: true})
		require.NoError(t, err)
	})
	require.Equal(t, []string{"s1/a", "s1/b", "s1/c", "s2/a", "s2/d"}, names)
	require.Equal(t, int64(1), revision)

	for name, test := range map[string]struct {
		req  *adminv1.ListRequest
		want []string
	}{
		"namespace": {&adminv1.ListRequest{Namespaces: []string{"s2"}}, []string{"s2/a"}},
		"name":      {&adminv1.ListRequest{Names: []string{"a"}, Kinds: []string{"vs"}}, []string{"s1/a", "s2/a"}},
		"kind":      {&adminv1.ListRequest{Kinds: []string{"dr"}}, nil},
		"spec":      {&adminv1.ListRequest{Where: `$.hosts[*] == "y"`}, []string{"s2/a"}},
		"labels":    {&adminv1.ListRequest{LabelSelector: "app"}, nil},
		"the past":  {&adminv1.ListRequest{Namespaces: []string{"s2"}, AsOf: &adminv1.ListRequest_Revision{Revision: 1}}, []string{"s2/a", "s2/d"}},
		"nothing":   {&adminv1.ListRequest{AsOf: &adminv1.ListRequest_Revision{}}, nil},
	} {
		names, _ := b.listAll(test.req, func() {})
		require.Equal(t, test.want, names, name)
	}
}

// A list that finds nothing says, if it is asked to, of which namespaces nothing is known.
func TestListTellsUnknownNamespaces(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	b := startAPI(t, url)
	_, err := b.admin.Apply(t.Context(), &adminv1.ApplyRequest{Documents: []*adminv1.Document{in("shop", "a")}})
	require.NoError(t, err)
	db := storetest.Connect(t, url)
	role := storetest.Tenancy{Owner: db, URL: url}.Role("team")
	db.Exec("SELECT mesh.grant_namespace($1, 'granted', 'read')", role)
	db.Exec("INSERT INTO mesh.secrets (namespace, name, data) VALUES ('hidden', 's', mesh.secret_data('{\"password\": \"x\"}'))")
	unknown := func(ctx context.Context, req *adminv1.ListRequest) (names []string) {
		t.Helper()
		answer, err := b.admin.List(ctx, req)
		require.NoError(t, err)
		for _, n := range answer.GetCheckedNamespaces().GetUnknown() {
			names = append(names, n.GetName()+":"+n.GetNearest())
		}
		return names
	}
	asking := func(namespaces ...string) *adminv1.ListRequest {
		return &adminv1.ListRequest{Kinds: []string{"gw"}, Namespaces: namespaces, CheckNamespaces: true}
	}
	require.Equal(t, []string{"shp:shop", "elsewhere:", "grnted:granted", "hiden:hidden", "defalt:default"}, unknown(t.Context(), asking("shp", "shop", "elsewhere", "grnted", "hiden", "defalt")))
	require.Empty(t, unknown(t.Context(), asking("shop", "granted", "hidden", "default", "-")))
	require.Empty(t, unknown(t.Context(), &adminv1.ListRequest{Namespaces: []string{"shp"}}), "nobody asked")
	require.Empty(t, unknown(t.Context(), &adminv1.ListRequest{Namespaces: []string{"shp", "shop"}, CheckNamespaces: true}), "something was found")

	require.Empty(t, unknown(b.withToken("one", "read:shp"), asking("shp")), "who has a scope for it knows it")
	require.Equal(t, []string{"shp:"}, unknown(b.withToken("kind", "read:*:gw"), asking("shp")), "who may not read all is told no names")
}

func TestListReportsAllInvalidFields(t *testing.T) {
	t.Parallel()
	b := startAPI(t, pgtest.New(t))
	b.apply(map[string]string{"a": "x", "b": "x"})
	list := func(req *adminv1.ListRequest) error {
		_, err := b.admin.List(t.Context(), req)
		return err
	}
	require.Equal(t, []string{"kinds[1]", "namespaces[0]", "page_size", "label_selector", "where"}, badFields(t, list(&adminv1.ListRequest{
		Kinds: []string{"vs", "nothing"}, Namespaces: []string{"a\x00"}, PageSize: -1, LabelSelector: "a==b==c", Where: "$.hosts",
	})))
	require.ErrorContains(t, list(&adminv1.ListRequest{Where: "$.hosts"}), "exists($.hosts)")
	require.Equal(t, []string{"where"}, badFields(t, list(&adminv1.ListRequest{Where: "hosts = 1"})))
	require.Equal(t, []string{"where"}, badFields(t, list(&adminv1.ListRequest{Where: "$.port == 10000000000000000000"})))
	require.Equal(t, []string{"revision"}, badFields(t, list(&adminv1.ListRequest{AsOf: &adminv1.ListRequest_Revision{Revision: -1}})))
	require.Equal(t, []string{"page_token"}, badFields(t, list(&adminv1.ListRequest{PageToken: "made up"})))
	page, err := b.admin.List(t.Context(), &adminv1.ListRequest{PageSize: 1})
	require.NoError(t, err)
	require.Equal(t, []string{"page_token"}, badFields(t, list(&adminv1.ListRequest{PageToken: page.GetNextPageToken(), Namespaces: []string{"s1"}})))
	require.NoError(t, list(&adminv1.ListRequest{PageToken: page.GetNextPageToken(), PageSize: 7}))
	require.Equal(t, codes.OutOfRange, status.Code(list(&adminv1.ListRequest{AsOf: &adminv1.ListRequest_Time{Time: timestamppb.New(time.Now().Add(time.Hour))}})))
}

func TestExpectedRevisions(t *testing.T) {
	t.Parallel()
	b := startAPI(t, pgtest.New(t))
	b.apply(map[string]string{"reviews": "a"})
	b.apply(map[string]string{"reviews": "b"})
	req := &adminv1.ApplyRequest{
		Documents: []*adminv1.Document{doc("", 0, 0, virtualService("reviews", "c"))},
		Expected:  []*adminv1.ExpectedRevision{{Resource: ref("reviews"), Revision: 1}, {Resource: ref("gone"), Revision: 1}},
	}

	_, err := b.admin.Apply(t.Context(), req)

	require.Equal(t, codes.Aborted, status.Code(err))
	require.ErrorContains(t, err, "VirtualService default/reviews: is at revision 2, of ada; expected was revision 1")
	detail, is := status.Convert(err).Details()[0].(*adminv1.Conflicts)
	require.True(t, is)
	require.NotNil(t, detail.GetConflicts()[0].GetTime())
	detail.GetConflicts()[0].Time = nil
	require.Empty(t, cmp.Diff(&adminv1.Conflicts{Conflicts: []*adminv1.RevisionConflict{
		{Resource: ref("reviews"), Expected: 1, Revision: 2, Author: "ada", Application: "test/1", Message: "because"},
		{Resource: ref("gone"), Expected: 1, Absent: true},
	}}, detail, protocmp.Transform()))
	require.Len(t, b.batches(2), 2)

	_, err = b.admin.Delete(t.Context(), &adminv1.DeleteRequest{Resource: ref("reviews"), Expected: req.GetExpected()[:1]})
	require.Equal(t, codes.Aborted, status.Code(err))
	req.Expected = []*adminv1.ExpectedRevision{{Resource: ref("reviews"), Revision: 2}, {Resource: ref("other")}}
	got, err := b.admin.Apply(t.Context(), req)
	require.NoError(t, err)
	require.Equal(t, int64(3), got.GetRevision())
	req.Expected = []*adminv1.ExpectedRevision{{Resource: ref("")}, {Resource: ref("a"), Revision: -1}, {Resource: ref("b")}, {Resource: ref("b")}}
	_, err = b.admin.Apply(t.Context(), req)
	require.Equal(t, []string{"expected[0].resource", "expected[1].revision", "expected[3].resource"}, badFields(t, err))
}

func TestApplyOfAStaleResourceVersionConflicts(t *testing.T) {
	t.Parallel()
	b := startAPI(t, pgtest.New(t))
	b.apply(map[string]string{"reviews": "a"})
	read, err := b.admin.Get(t.Context(), &adminv1.GetRequest{Resource: ref("reviews")})
	require.NoError(t, err)
	text, err := protojson.Marshal(read.GetResource())
	require.NoError(t, err)
	send := func(content string) (*adminv1.ApplyResponse, error) {
		return b.admin.Apply(t.Context(), &adminv1.ApplyRequest{Documents: []*adminv1.Document{{Content: []byte(content), Line: 1}}, ExpectResourceVersions: true})
	}

	got, err := send(string(text))
	require.NoError(t, err)
	require.Equal(t, adminv1.Outcome_ACTION_UNCHANGED, got.GetOutcomes()[0].GetAction())
	b.apply(map[string]string{"reviews": "b"})
	_, err = send(string(text))
	require.Equal(t, codes.Aborted, status.Code(err))
	_, err = send(virtualService("reviews", "c"))
	require.NoError(t, err, "who names no version expects none")
	_, err = send("apiVersion: networking.istio.io/v1\nkind: DestinationRule\nmetadata: {name: x, resourceVersion: a7}\nspec: {host: x}")
	ours, _ := refusal(t, err)
	require.Equal(t, "metadata.resourceVersion", ours.GetViolations()[0].GetPath())
}

func TestADocumentWithoutAnIndexMayHoldSeveralResources(t *testing.T) {
	t.Parallel()
	b := startAPI(t, pgtest.New(t))
	manifest := func(host string) []*adminv1.Document {
		return []*adminv1.Document{{Line: 1, Content: []byte("apiVersion: networking.istio.io/v1\nkind: DestinationRule\nmetadata: {name: x}\nspec: {host: x}\n" +
			"---\napiVersion: networking.istio.io/v1\nkind: DestinationRule\nmetadata: {name: y}\nspec: {" + host + ": y}\n")}}
	}

	got, err := b.admin.Apply(t.Context(), &adminv1.ApplyRequest{Documents: manifest("host")})
	require.NoError(t, err)
	require.Len(t, got.GetOutcomes(), 2)
	_, err = b.admin.Apply(t.Context(), &adminv1.ApplyRequest{Documents: manifest("hots")})
	ours, _ := refusal(t, err)
	require.Equal(t, []int32{2, 9}, []int32{ours.GetViolations()[0].GetDocument(), ours.GetViolations()[0].GetLine()})
	_, err = b.admin.Apply(t.Context(), &adminv1.ApplyRequest{Documents: []*adminv1.Document{{Index: 1, Line: 1, Content: manifest("host")[0].GetContent()}}})
	require.ErrorContains(t, err, "there are 2 resources in it, expected one")
}

func TestConfirmedChanges(t *testing.T) {
	t.Parallel()
	b := startAPI(t, pgtest.New(t))
	apply := func(name string, within time.Duration) (*adminv1.ApplyResponse, error) {
		return b.admin.Apply(t.Context(), &adminv1.ApplyRequest{
			Documents: []*adminv1.Document{doc("", 0, 0, virtualService(name, "a"))}, Author: "ada", Message: "careful", ConfirmWithin: durationpb.New(within),
		})
	}
	got, err := apply("x", time.Hour)
	require.NoError(t, err)
	require.WithinDuration(t, time.Now().Add(time.Hour), got.GetConfirmBy().AsTime(), time.Minute)
	waiting, err := b.admin.Confirmations(t.Context(), &adminv1.ConfirmationsRequest{States: []string{"waiting"}})
	require.NoError(t, err)
	require.Empty(t, cmp.Diff([]*adminv1.Confirmation{{
		Revision: 1, Author: "ada", Message: "careful", State: "waiting", Deadline: got.GetConfirmBy(), Within: durationpb.New(time.Hour),
	}}, waiting.GetConfirmations(), protocmp.Transform()))

	confirmed, err := b.admin.Confirm(t.Context(), &adminv1.ConfirmRequest{Author: "bob"})
	require.NoError(t, err)
	require.Equal(t, int64(1), confirmed.GetRevision())
	_, err = b.admin.Confirm(t.Context(), &adminv1.ConfirmRequest{Revision: 1})
	require.NoError(t, err, "twice is fine")
	_, err = b.admin.Confirm(t.Context(), &adminv1.ConfirmRequest{})
	require.Equal(t, codes.FailedPrecondition, status.Code(err))
	none, err := b.admin.Confirmations(t.Context(), &adminv1.ConfirmationsRequest{States: []string{"waiting"}})
	require.NoError(t, err)
	require.True(t, proto.Equal(&adminv1.ConfirmationsResponse{}, none))
	_, err = b.admin.Confirmations(t.Context(), &adminv1.ConfirmationsRequest{States: []string{"lost"}})
	require.Equal(t, []string{"states[0]"}, badFields(t, err))
	_, err = apply("y", -time.Second)
	require.Equal(t, []string{"confirm_within"}, badFields(t, err))
	_, err = b.admin.Confirm(t.Context(), &adminv1.ConfirmRequest{Revision: -1})
	require.Equal(t, []string{"revision"}, badFields(t, err))
}
