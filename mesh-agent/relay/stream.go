package relay

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/mesh-agent/wire"
)

// stream is one of Envoy's.
type stream struct {
	server *Server
	id     int
	form   wire.Form
	down   grpc.ServerStream
	said   chan *message // what Envoy says
	early  *early
	names  *names
	state  atomic.Int32
}

// What becomes of a stream, in this order; the third in the place of the second where no discovery answers.
const (
	waiting int32 = iota
	passing
	keeping
)

func newStream(s *Server, id int, form wire.Form, down grpc.ServerStream) *stream {
	return &stream{server: s, id: id, form: form, down: down, said: make(chan *message), early: newEarly(), names: newNames(s)}
}

func (st *stream) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	over := make(chan struct{})
	go st.listen(ctx, over) // ends with the stream, as gRPC sees to
	select {
	case m := <-st.said:
		st.early.add(m, false)
	case <-over:
		return nil
	}
	p, first, err := st.await(ctx, over)
	if p == nil {
		return err
	}
	defer p.close()
	st.state.Store(passing)
	close(st.early.over)
	return st.pass(ctx, p, first, over)
}

// listen reads what Envoy says no faster than somebody takes it.
func (st *stream) listen(ctx context.Context, over chan struct{}) {
	defer close(over)
	for {
		m, err := received(st.down)
		if err != nil {
			return
		}
		select {
		case st.said <- m:
		case <-ctx.Done():
			return
		}
	}
}

// await waits for a discovery that answers, and returns the way to it and its first answer. Without one the stream is over.
func (st *stream) await(ctx context.Context, over chan struct{}) (*passage, *message, error) {
	pause := firstPause
	for {
		p := st.begin(ctx)
		first, err := st.firstAnswer(ctx, p, over)
		if first != nil {
			return p, first, nil
		}
		p.close()
		if err == nil || !passes(err) || !st.early.whole() {
			return nil, nil, ending(err)
		}
		select { // somebody else may do better
		case <-time.After(max(pause, retryAfter(err))):
		case <-over:
			return nil, nil, nil
		}
		pause = min(2*pause, lastPause)
	}
}

// The pauses between attempts to be answered by a discovery that does not want to.
const (
	firstPause = 100 * time.Millisecond
	lastPause  = 5 * time.Second
)

// firstAnswer takes in what Envoy says until it is answered. With neither an answer nor an error the stream is over: Envoy has gone, or has to
// begin anew because it has said more than was kept.
func (st *stream) firstAnswer(ctx context.Context, p *passage, over chan struct{}) (*message, error) {
	opened, connected := p.opened, false
	for {
		select {
		case m := <-st.said:
			st.early.add(m, connected)
		case m := <-p.heard:
			return m, nil
		case err := <-p.failed:
			return nil, err
		case <-opened:
			if opened, connected = nil, true; !st.early.whole() {
				return nil, nil
			}
		case <-over:
			return nil, nil
		case <-ctx.Done():
			return nil, nil
		}
	}
}

// pass passes on what discovery answers.
func (st *stream) pass(ctx context.Context, p *passage, m *message, over chan struct{}) error {
	for {
		if err := st.answer(ctx, p, m); err != nil {
			return err
		}
		select {
		case m = <-p.heard:
		case err := <-p.failed:
			return ending(err)
		case <-over:
			return nil
		}
	}
}

// answer passes an answer on, unless it is for the agent itself.
func (st *stream) answer(ctx context.Context, p *passage, m *message) error {
	r, err := wire.ParseResponse(st.form, m.bytes)
	if err != nil {
		st.server.Log.Error("discovery says what cannot be read; it is passed on to Envoy", "error", err)
		return st.down.SendMsg(m)
	}
	if st.names.wanted() && r.TypeURL == nameTable {
		select {
		case p.own <- st.names.take(st.form, r):
		case <-ctx.Done():
		}
		return nil
	}
	return st.down.SendMsg(m)
}

// note hears what Envoy says to what it was answered.
func (st *stream) note(*message) {}

// passes tells of the end of a stream whether another attempt may do better, with this discovery or another.
func passes(err error) bool {
	switch status.Code(err) {
	case codes.Unavailable, codes.ResourceExhausted:
		return true
	case codes.Canceled: // the connection is closed, for there is a newer one
		return true
	}
	return false
}

// ending is what Envoy is told. It comes back by itself, after a pause that grows while it is not answered; what may be wrong with it, it logs.
func ending(err error) error {
	if err == nil || errors.Is(err, io.EOF) || passes(err) {
		return nil
	}
	return err
}

// retryAfter is for how long a discovery wants to be left alone.
func retryAfter(err error) time.Duration {
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.RetryInfo); ok {
			return min(info.GetRetryDelay().AsDuration(), time.Minute)
		}
	}
	return 0
}
