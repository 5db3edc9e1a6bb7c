package connect

import (
	"context"
	"errors"
	"io"
	"time"

	"google.golang.org/grpc"
)

// Method is a method of a generated API client, such as adminv1.AdminServiceClient.Apply.
type Method[Client, Req, Resp any] = func(Client, context.Context, *Req, ...grpc.CallOption) (*Resp, error)

// streamed is a method with a stream of answers.
type streamed[Client, Req, Resp any] = func(Client, context.Context, *Req, ...grpc.CallOption) (grpc.ServerStreamingClient[Resp], error)

// Call makes one call on its own connection. explain turns its error into one for the user.
func Call[Client, Req, Resp any](
	ctx context.Context, s *Server, api func(grpc.ClientConnInterface) Client, m Method[Client, Req, Resp], req *Req, explain func(error) error,
) (*Resp, error) {
	conn, err := s.Connect()
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	answer, err := m(api(conn), ctx, req)
	if err != nil {
		return nil, explain(err)
	}
	return answer, nil
}

// Each makes a streaming call and passes each part to take. The timeout applies to the first part
// only.
func Each[Client, Req, Resp any](
	ctx context.Context, s *Server, api func(grpc.ClientConnInterface) Client, m streamed[Client, Req, Resp], req *Req, take func(*Resp) error,
) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	deadline := time.AfterFunc(s.Timeout, func() { fail(s.Silent()) })
	defer deadline.Stop()
	err := s.open(ctx, func(ctx context.Context, conn grpc.ClientConnInterface) error {
		answers, err := m(api(conn), ctx, req)
		if err != nil {
			return s.Explain(err)
		}
		return receive(answers, take, s.Explain)
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
