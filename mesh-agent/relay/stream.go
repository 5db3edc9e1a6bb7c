package relay

import (
	"context"
	"errors"
	"io"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/mesh-agent/lastgood"
	"github.com/pgmesh/pgmesh/mesh-agent/wire"
)

// stream is one of Envoy's. It waits for a discovery that answers, and then passes on what both say; or, where none does, is answered from what
// was kept.
type stream struct {
	server *Server
	form   wire.Form
	down   grpc.ServerStream
	said   chan *message // what Envoy says
	early  *early
	names  *names
	kept   *lastgood.Stream // nil if nothing is kept
}

func newStream(s *Server, form wire.Form, down grpc.ServerStream) *stream {
	st := &stream{server: s, form: form, down: down, said: make(chan *message), early: newEarly()}
	if s.Kept != nil {
		st.kept = s.Kept.Stream(form)
	}
	st.names = &names{s, st.kept}
	return st
}

func (st *stream) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	over := make(chan struct{})
	go st.listen(ctx, over) // ends with the stream, as gRPC sees to
	select {
	case m := <-st.said:
		st.early.add(st.whole(m), false)
	case <-over:
		return nil
	}
	p, first, err := st.await(ctx, over)
	switch {
	case errors.Is(err, errAway):
		return st.keep(ctx, over)
	case p == nil:
		return err
	}
	defer p.close()
	for _, m := range st.early.after(0) {
		st.note(m)
	}
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

// errAway is of a stream that is to be answered from what was kept.
var errAway = errors.New("no discovery answers")

// await waits for a discovery that answers, and returns the way to it and its first answer. Without one the stream is over, or the error is errAway.
func (st *stream) await(ctx context.Context, over chan struct{}) (*passage, *message, error) {
	pause, patience := firstPause, newPatience(st)
	defer patience.timer.Stop()
	for {
		p := st.begin(ctx)
		first, err := st.firstAnswer(ctx, p, patience, over)
		if first != nil {
			return p, first, nil
		}
		p.close()
		if errors.Is(err, errAway) {
			return nil, nil, err
		}
		if err == nil || !passes(err) || !st.early.whole() {
			return nil, nil, ending(err)
		}
		again := time.After(max(pause, retryAfter(err))) // somebody else may do better
		for again != nil {
			select {
			case <-again:
				again = nil
			case <-patience.timer.C:
				if patience.over() {
					return nil, nil, errAway
				}
			case <-over:
				return nil, nil, nil
			}
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
func (st *stream) firstAnswer(ctx context.Context, p *passage, patience *patience, over chan struct{}) (*message, error) {
	opened, connected := p.opened, false
	for {
		select {
		case m := <-st.said:
			st.early.add(st.whole(m), connected)
		case m := <-p.heard:
			return m, nil
		case err := <-p.failed:
			return nil, err
		case <-opened:
			if opened, connected = nil, true; !st.early.whole() {
				return nil, nil
			}
		case <-patience.timer.C:
			if patience.over() {
				return nil, errAway
			}
		case <-over:
			return nil, nil
		case <-ctx.Done():
			return nil, nil
		}
	}
}

// patience is how long a stream waits for a discovery before it is answered from what was kept.
type patience struct {
	stream *stream
	began  time.Time
	timer  *time.Timer
}

func newPatience(st *stream) *patience {
	p := &patience{stream: st, began: time.Now()}
	p.timer = time.NewTimer(p.left())
	return p
}

// left is for how long to wait on. A discovery that has been away for long is not waited for anew.
func (p *patience) left() time.Duration {
	s := p.stream.server
	status, _ := s.Discovery.Status()
	if status.Connected {
		return time.Until(p.began.Add(silence))
	}
	since := p.began
	if status.Since.Before(since) {
		since = status.Since
	}
	return time.Until(since.Add(s.Patience))
}

// over tells whether that is enough. If it is not, the timer says when to look again.
func (p *patience) over() bool {
	s := p.stream.server
	left := p.left()
	if left <= 0 && s.Kept != nil && p.stream.early.whole() && newKeeper(p.stream.form, s.Kept).lacks(p.stream.early.after(0)) {
		return true
	}
	p.timer.Reset(max(left, lookAgain))
	return false
}

// lookAgain is how often what an Envoy asks for that waits is looked at.
const lookAgain = 250 * time.Millisecond

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
	st.server.answered()
	st.kept.Offered(r)
	if st.names.wanted() && r.TypeURL == nameTable {
		select {
		case p.own <- st.names.take(st.form, r):
		case <-ctx.Done():
		}
		return nil
	}
	return st.down.SendMsg(m)
}

// whole has an Envoy that comes back be sent again what it has and what was not kept: a last good configuration with holes would be none. It
// is the only thing that is changed of what Envoy says.
func (st *stream) whole(m *message) *message {
	if st.form == wire.SotW || st.kept == nil { // of a state of the world all comes again anyway
		return m
	}
	r, err := wire.ParseRequest(st.form, m.bytes)
	if err != nil {
		return m
	}
	missing := st.kept.Missing(r)
	if len(missing) == 0 {
		return m
	}
	st.server.Log.Info("Envoy has what was not kept here, and is sent it again", "type", r.TypeURL, "resources", len(missing))
	return &message{r.WithVersions(func(name, version string) string {
		if missing[name] {
			return ""
		}
		return version
	})}
}

// note hears what Envoy says to what it was answered, before discovery does.
func (st *stream) note(m *message) {
	r, err := wire.ParseRequest(st.form, m.bytes)
	if err != nil {
		st.server.Log.Error("Envoy says what cannot be read; it is passed on to discovery", "error", err)
		return
	}
	if r.Refused {
		st.server.refused(r)
	}
	st.kept.Said(r)
}

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
