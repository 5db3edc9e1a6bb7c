package session

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/mcp-client/cli/connect"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

// Ask makes a read-only call of the admin API.
func Ask[Req, Resp any](ctx context.Context, s *Session, m connect.Method[adminv1.AdminServiceClient, Req, Resp], req *Req) (*Resp, error) {
	notice := s.Notice("asking " + s.Server.Address)
	defer notice.End()
	return connect.Call(ctx, &s.Server, adminv1.NewAdminServiceClient, m, req, s.Server.Explain)
}

// Change makes a call of the admin API that changes something.
func Change[Req, Resp any](ctx context.Context, s *Session, m connect.Method[adminv1.AdminServiceClient, Req, Resp], req *Req) (*Resp, error) {
	return connect.Call(ctx, &s.Server, adminv1.NewAdminServiceClient, m, req, func(err error) error {
		if status.Code(err) == codes.DeadlineExceeded {
			return fmt.Errorf("%w; running this again is safe", s.Server.Undecided())
		}
		return s.Server.Explain(err)
	})
}

// Call makes a call of another API than that of the mesh's configuration. Why it cannot be done as
// things stand, the server says.
func Call[Client, Req, Resp any](ctx context.Context, s *Session, api func(grpc.ClientConnInterface) Client, m connect.Method[Client, Req, Resp], req *Req) (*Resp, error) {
	return connect.Call(ctx, &s.Server, api, m, req, func(err error) error {
		if code := status.Code(err); code == codes.AlreadyExists || code == codes.FailedPrecondition {
			return errors.New(status.Convert(err).Message())
		}
		return s.Server.Explain(err)
	})
}
