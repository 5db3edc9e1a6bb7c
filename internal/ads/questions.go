package ads

import (
	"context"
	"slices"
	"strconv"

	"golang.org/x/time/rate"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/internal/ads/served"
	"github.com/pgmesh/pgmesh/internal/ads/wire"
)

// Questions are types whose resources describe the server itself, such as its clients. A stream whose
// first request asks for one is no client: it has no subscriber, is not among the streams, and no
// observer hears of it.
type Questions struct {
	// Are reports whether a type is a question.
	Are func(typeURL string) bool
	// Reply returns what is sent. Its error ends the stream and should carry a gRPC status.
	Reply func(ctx context.Context, typeURL string, names []string) (Reply, error)
}

// Reply is the answer to a question.
type Reply struct {
	// Identifier replaces that of the server.
	Identifier string
	Resources  []*served.Resource
}

// Replies are computed for each question, which takes 15 ms where there are 2,000 clients. So all who
// ask share a number of them.
const (
	repliesPerSecond = 5
	repliesAtOnce    = 20
)

// inquiry answers questions.
type inquiry struct {
	Questions

	pace *rate.Limiter
}

// Ask sets which questions the server answers. Call it before the first client connects.
func (s *Server) Ask(q Questions) {
	s.inquiry = &inquiry{q, rate.NewLimiter(repliesPerSecond, repliesAtOnce)}
}

func (i *inquiry) is(typeURL string) bool { return i != nil && i.Are(typeURL) }

// errServed refuses a stream that asks for both: those of clients are counted.
var errServed = status.Error(codes.InvalidArgument, "this stream has asked about the server, and is not served configuration: open another for that")

// errTooMany is for who would not be answered in time, or has gone.
var errTooMany = status.Errorf(codes.ResourceExhausted, "more is asked about the server than it answers, %d questions a second: ask again later", repliesPerSecond)

// converse answers the questions of a stream until it ends.
func (s *Server) converse(ctx context.Context, form wire.Form, first *wire.Request, requests <-chan *wire.Request, failed <-chan error) error {
	replies := 0
	err := s.inquiry.handle(ctx, form, first, &replies)
	for err == nil {
		select {
		case r := <-requests:
			err = s.inquiry.handle(ctx, form, r, &replies)
			r.Done()
		case err := <-failed:
			return err
		case <-ctx.Done():
			return nil
		case <-s.done:
			return errShutdown
		}
	}
	return err
}

// handle replies to a request, unless that acknowledges the last reply. Istio's tool sends a nonce
// of its own with its question.
func (i *inquiry) handle(ctx context.Context, form wire.Form, r *wire.Request, replies *int) error {
	switch {
	case !i.Are(r.TypeURL):
		return errServed
	case *replies > 0 && r.Nonce == strconv.Itoa(*replies):
		return nil
	}
	if i.pace.Wait(ctx) != nil {
		return errTooMany
	}
	names := slices.DeleteFunc(slices.Concat(r.Names, r.Subscribe), func(name string) bool { return name == "*" })
	reply, err := i.Reply(ctx, r.TypeURL, names)
	if err != nil {
		return err
	}
	*replies++
	return form.Send(form.Encode(&wire.Response{
		TypeURL: r.TypeURL, Nonce: strconv.Itoa(*replies), Identifier: reply.Identifier, Resources: reply.Resources,
	}))
}
