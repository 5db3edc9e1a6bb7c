package serve_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/emptypb"

	accessv1 "github.com/pgmesh/pgmesh/proto/pgmesh/access/v1"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

// asked are requests about the namespace shop, to calls that look at what they are asked before
// they ask who asks.
var asked = map[string][]proto.Message{
	"Get":           {&adminv1.GetRequest{Resource: inShop}},
	"Blame":         {&adminv1.BlameRequest{Resource: inShop}},
	"Diff":          {&adminv1.DiffRequest{From: &adminv1.DiffRequest_FromRevision{}}},
	"Restore":       {&adminv1.RestoreRequest{To: &adminv1.RestoreRequest_Revision{}}},
	"Revert":        {&adminv1.RevertRequest{Revision: 1}},
	"Confirm":       {&adminv1.ConfirmRequest{Revision: 1}},
	"Apply":         {&adminv1.ApplyRequest{Documents: documentInShop}},
	"Delete":        {&adminv1.DeleteRequest{Resources: []*adminv1.ResourceRef{inShop}}},
	"Import":        {&adminv1.ImportRequest{Step: &adminv1.ImportRequest_Start{Start: &adminv1.ImportStart{}}}, &adminv1.ImportRequest{Step: &adminv1.ImportRequest_Portion{Portion: &adminv1.ImportPortion{Documents: documentInShop}}}},
	"RevokeMember":  {&adminv1.RevokeMemberRequest{Member: &adminv1.Member{Namespace: "shop", ServiceAccount: "cart"}}},
	"RestoreMember": {&adminv1.RestoreMemberRequest{Member: &adminv1.Member{Namespace: "shop", ServiceAccount: "cart"}}},
	"ListRunners":   {&adminv1.ListRunnersRequest{Resource: inShop}},
	"ListSecrets":   {&adminv1.ListSecretsRequest{Namespaces: []string{"shop"}}},
}

var (
	inShop         = &adminv1.ResourceRef{Group: "networking.istio.io", Kind: "ServiceEntry", Namespace: "shop", Name: "cart"}
	documentInShop = []*adminv1.Document{{Content: []byte(strings.ReplaceAll(`{"apiVersion": "networking.istio.io/v1", "kind": "ServiceEntry", "metadata": {"name": "till", "namespace": "shop"},
		"spec": {"hosts": ["till.shop"], "resolution": "STATIC", "ports": [{"number": 80, "name": "http", "protocol": "HTTP"}]}}`, "\n", ""))}}
)

// A caller that may do nothing in shop is refused by every call that needs a right, whether the
// server checks it (unlimited) or the call itself (narrowed).
func TestEveryCallAsksWhoCalls(t *testing.T) {
	t.Parallel()
	f := startSecure(t, nil)
	f.put("shop")
	token := f.token("nothing", "secrets:elsewhere")
	conn := f.dial(f.withToken(token))
	calls := 0
	for method, rule := range served() {
		if rule.GetOpenTo() != accessv1.Group_GROUP_UNSPECIFIED {
			continue
		}
		calls++
		err := call(t, conn, method, asked[method[strings.LastIndex(method, "/")+1:]]...)
		require.Equal(t, codes.PermissionDenied, status.Code(err), "%s: ask the caller, or add a request here that comes to that: %v", method, err)
	}
	require.Greater(t, calls, 40, "the calls are not found any more")

	code, body := f.ask("", token, http.MethodGet, "/v1/tokens", "")
	require.Equal(t, http.StatusForbidden, code)
	require.Contains(t, body, "token:nothing may not administer who else may call: it has the scopes secrets:elsewhere")
}

// served are the calls of mcp-server, with what their .proto files say of who may make them.
func served() map[string]*accessv1.Access {
	calls := map[string]*accessv1.Access{}
	protoregistry.GlobalFiles.RangeFiles(func(file protoreflect.FileDescriptor) bool {
		for i := range file.Services().Len() {
			service := file.Services().Get(i)
			for j := range service.Methods().Len() {
				rule, _ := proto.GetExtension(service.Methods().Get(j).Options(), accessv1.E_Access).(*accessv1.Access)
				if rule != nil {
					calls[fmt.Sprintf("/%s/%s", service.FullName(), service.Methods().Get(j).Name())] = rule
				}
			}
		}
		return true
	})
	return calls
}

// call is what is answered to requests: one in which nothing is set, if there are none.
func call(t *testing.T, conn *grpc.ClientConn, method string, requests ...proto.Message) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, method)
	require.NoError(t, err)
	if len(requests) == 0 {
		requests = []proto.Message{&emptypb.Empty{}}
	}
	for _, r := range requests {
		_ = stream.SendMsg(r)
	}
	_ = stream.CloseSend()
	for {
		if err := stream.RecvMsg(&emptypb.Empty{}); err != nil {
			return err
		}
	}
}
