package relay

import (
	"context"
	"slices"
	"sync"

	"google.golang.org/grpc"

	"github.com/pgmesh/pgmesh/internal/panics"
)

// passage is one stream to a discovery, for one of Envoy's.
type passage struct {
	end    context.CancelFunc
	ended  sync.WaitGroup
	opened chan struct{} // closed when there is a stream
	heard  chan *message // what discovery says: it is read no further than somebody takes it
	failed chan error    // has one element when the stream has ended
	own    chan *message // what the agent itself has to say
}

// begin opens a stream, for as long as it takes until there is a discovery.
func (st *stream) begin(ctx context.Context) *passage {
	p := &passage{opened: make(chan struct{}), heard: make(chan *message), failed: make(chan error, 1), own: make(chan *message, 8)}
	ctx, p.end = context.WithCancel(ctx)
	if names := st.names.subscription(st.form); names != nil {
		p.own <- names
	}
	p.ended.Go(func() {
		desc := &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}
		up, err := st.server.Discovery.NewStream(ctx, desc, methods[st.form], grpc.ForceCodecV2(newCodec()), grpc.WaitForReady(true))
		if err != nil {
			p.failed <- err
			return
		}
		close(p.opened)
		p.ended.Go(func() {
			if err := panics.Try("stream", func() error { st.speak(ctx, p, up); return nil }); err != nil {
				p.end() // and with it the stream, which Envoy opens again
			}
		})
		p.failed <- panics.Try("stream", func() error { return p.listen(ctx, up) })
	})
	return p
}

// close ends the stream.
func (p *passage) close() {
	p.end()
	p.ended.Wait()
}

// listen hands on what discovery says, until it says no more.
func (p *passage) listen(ctx context.Context, up grpc.ClientStream) error {
	for {
		m, err := received(up)
		if err != nil {
			return err
		}
		select {
		case p.heard <- m:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// speak passes on what Envoy says, and what the agent adds. Why something cannot be sent is what listen fails of.
func (st *stream) speak(ctx context.Context, p *passage, up grpc.ClientStream) {
	passed, over := 0, false
	for !over {
		over = st.early.closed() // before it is looked at
		for _, m := range st.early.after(passed) {
			if up.SendMsg(m) != nil {
				return
			}
			passed++
		}
		if over {
			break
		}
		select {
		case m := <-p.own:
			if up.SendMsg(m) != nil {
				return
			}
		case <-st.early.more:
		case <-st.early.over:
		case <-ctx.Done():
			return
		}
	}
	st.early.free()
	for {
		var m *message
		select {
		case m = <-st.said:
			m = st.whole(m)
			st.note(m)
		case m = <-p.own:
		case <-ctx.Done():
			return
		}
		if up.SendMsg(m) != nil {
			return
		}
	}
}

// early is what Envoy says before it was answered at all. It is said again to another discovery, if the first does not answer.
type early struct {
	more chan struct{} // has an element when there is more of it
	over chan struct{} // closed when Envoy is answered

	mu       sync.Mutex
	messages []*message // nil for those that are not kept any more
	bytes    int
	lost     bool // it is not all there any more
}

// mostEarly is how much is kept to be said again.
const mostEarly = 4 << 20

func newEarly() *early { return &early{more: make(chan struct{}, 1), over: make(chan struct{})} }

// add takes what Envoy says. Where it has become too much, it is for a discovery alone that there is already.
func (e *early) add(m *message, connected bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.bytes += len(m.bytes)
	if e.bytes > mostEarly {
		e.lost = true
		if !connected {
			return
		}
	}
	e.messages = append(e.messages, m)
	select {
	case e.more <- struct{}{}:
	default:
	}
}

// after is what comes after the first n.
func (e *early) after(n int) []*message {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.lost {
		clear(e.messages[:n])
	}
	return slices.Clone(e.messages[n:])
}

// free lets go of what nobody says again.
func (e *early) free() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.messages, e.lost = nil, true
}

// whole tells whether it can be said again.
func (e *early) whole() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return !e.lost
}

func (e *early) closed() bool {
	select {
	case <-e.over:
		return true
	default:
		return false
	}
}
