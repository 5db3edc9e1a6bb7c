package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

// method is a method of a generated API client, such as adminv1.AdminServiceClient.Apply.
type method[Client, Req, Resp any] = func(Client, context.Context, *Req, ...grpc.CallOption) (*Resp, error)

// streamed is a method with a stream of answers.
type streamed[Req, Resp any] = func(adminv1.AdminServiceClient, context.Context, *Req, ...grpc.CallOption) (grpc.ServerStreamingClient[Resp], error)

// call makes one call on its own connection. explain turns its error into one for the user.
func call[Client, Req, Resp any](
	ctx context.Context, s *server, api func(grpc.ClientConnInterface) Client, m method[Client, Req, Resp], req *Req, explain func(error) error,
) (*Resp, error) {
	conn, err := s.connect(math.MaxInt32)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	answer, err := m(api(conn), ctx, req)
	if err != nil {
		return nil, explain(err)
	}
	return answer, nil
}

// ask makes a read-only call of the admin API.
func ask[Req, Resp any](ctx context.Context, p *session, m method[adminv1.AdminServiceClient, Req, Resp], req *Req) (*Resp, error) {
	notice := p.notice("asking " + p.server.address)
	defer notice.end()
	return call(ctx, &p.server, adminv1.NewAdminServiceClient, m, req, p.server.explain)
}

// makeChange makes a call of the admin API that changes something.
func makeChange[Req, Resp any](ctx context.Context, p *session, m method[adminv1.AdminServiceClient, Req, Resp], req *Req) (*Resp, error) {
	return call(ctx, &p.server, adminv1.NewAdminServiceClient, m, req, func(err error) error {
		if status.Code(err) == codes.DeadlineExceeded {
			return fmt.Errorf("%w. Whether the change was made is not known; running this again is safe", p.server.silent())
		}
		return p.server.explain(err)
	})
}

// callTokens makes a call of the token API.
func callTokens[Req, Resp any](ctx context.Context, p *session, m method[adminv1.TokenServiceClient, Req, Resp], req *Req) (*Resp, error) {
	return call(ctx, &p.server, adminv1.NewTokenServiceClient, m, req, func(err error) error {
		if status.Code(err) == codes.AlreadyExists {
			return errors.New(status.Convert(err).Message())
		}
		return p.server.explain(err)
	})
}

// each makes a streaming call of the admin API and passes each part to take. The timeout applies to the first
// part only.
func each[Req, Resp any](ctx context.Context, s *server, m streamed[Req, Resp], req *Req, take func(*Resp) error) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	deadline := time.AfterFunc(s.timeout, func() { fail(s.silent()) })
	defer deadline.Stop()
	err := s.stream(ctx, func(ctx context.Context, admin adminv1.AdminServiceClient) error {
		answers, err := m(admin, ctx, req)
		if err != nil {
			return s.explain(err)
		}
		return receive(answers, take, s.explain)
	}, onMessage(func(int) { deadline.Stop() }))
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

func receive[Resp any](answers grpc.ServerStreamingClient[Resp], take func(*Resp) error, explain func(error) error) error {
	for {
		answer, err := answers.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return explain(err)
		}
		if err := take(answer); err != nil {
			return err
		}
	}
}
