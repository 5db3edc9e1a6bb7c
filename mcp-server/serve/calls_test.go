package serve_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/emptypb"

	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

// Every call of the admin API asks who calls. A caller who may neither read nor write is told of nothing but how the server fares.
func TestEveryCallAsksWhoCalls(t *testing.T) {
	t.Parallel()
	f := startSecure(t, nil)
	conn := f.dial(f.withToken(f.token("neither", "register")))
	calls := 0
	protoregistry.GlobalFiles.RangeFilesByPackage(adminv1.File_pgmesh_admin_v1_admin_proto.Package(), func(file protoreflect.FileDescriptor) bool {
		for i := range file.Services().Len() {
			for _, method := range methods(file.Services().Get(i)) {
				if method == "/pgmesh.admin.v1.AdminService/Status" {
					continue
				}
				calls++
				code := emptyCall(t, conn, method)
				require.Contains(t, []codes.Code{codes.PermissionDenied, codes.InvalidArgument}, code, "%s: ask the caller before anything else", method)
			}
		}
		return true
	})
	require.Greater(t, calls, 40, "the calls are not found any more")
}

func methods(s protoreflect.ServiceDescriptor) (names []string) {
	for i := range s.Methods().Len() {
		names = append(names, fmt.Sprintf("/%s/%s", s.FullName(), s.Methods().Get(i).Name()))
	}
	return names
}

// emptyCall is what is answered to a request in which nothing is set.
func emptyCall(t *testing.T, conn *grpc.ClientConn, method string) codes.Code {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, method)
	require.NoError(t, err)
	_ = stream.SendMsg(&emptypb.Empty{})
	_ = stream.CloseSend()
	return status.Code(stream.RecvMsg(&emptypb.Empty{}))
}
