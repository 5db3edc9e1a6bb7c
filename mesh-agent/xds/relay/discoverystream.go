package relay

import (
	"context"
	"slices"
	"sync"

	"google.golang.org/grpc"

	"github.com/pgmesh/pgmesh/internal/kit/panics"
)

// discoveryStream is a stream to discovery on behalf of one of Envoy's streams.
type discoveryStream struct {
	end           context.CancelFunc
	ended         sync.WaitGroup
	opened        chan struct{} // closed when the stream is open
	responses     chan *message // from discovery; unbuffered, for backpressure
	failed        chan error    // has an element when the stream has ended
	agentRequests chan *message // the agent's own requests, sent between Envoy's
}

// openDiscovery opens a stream, waiting for a connection as long as the context lasts.
func (st *stream) openDiscovery(ctx context.Context) *discoveryStream {
	p := &discoveryStream{opened: make(chan struct{}), responses: make(chan *message), failed: make(chan error, 1), agentRequests: make(chan *message, 8)}
	ctx, p.end = context.WithCancel(ctx)
	if names := st.names.request(st.form); names != nil {
		p.agentRequests <- names
	}
	p.ended.Go(func() {
		desc := &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}
		up, err := st.server.Discovery.NewStream(ctx, desc, methods[st.form], grpc.ForceCodecV2(newCodec()), grpc.WaitForReady(true))
		if err != nil {
			p.failed <- err
			return
		}
		close(p.opened)
		defer st.passage.Store(nil)
		p.ended.Go(func() {
			if err := panics.Try("stream", func() error { st.send(ctx, p, up); return nil }); err != nil {
				p.end() // the stream ends, and Envoy opens another
			}
		})
		p.failed <- panics.Try("stream", func() error {
			return p.receive(ctx, up, func() { st.passage.Store(st.server.Passage.Stream(up.Header)) })
		})
	})
	return p
}

// close ends the stream and waits for its goroutines.
func (p *discoveryStream) close() {
	p.end()
	p.ended.Wait()
}

// receive passes on responses until the stream ends. It calls begun when the first has come.
func (p *discoveryStream) receive(ctx context.Context, up grpc.ClientStream, begun func()) error {
	for {
		m, err := receive(up)
		if err != nil {
			return err
		}
		if begun != nil {
			begun()
			begun = nil
		}
		select {
		case p.responses <- m:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// send sends Envoy's requests and the agent's own. It ignores send errors: receive returns the
// reason.
func (st *stream) send(ctx context.Context, p *discoveryStream, up grpc.ClientStream) {
	passed, last := 0, false
	for !last {
		last = st.replay.isAnswered() // read first: nothing is added afterwards
		for _, m := range st.replay.from(passed) {
			if up.SendMsg(m) != nil {
				return
			}
			passed++
		}
		if last {
			break
		}
		select {
		case m := <-p.agentRequests:
			if up.SendMsg(m) != nil {
				return
			}
		case <-st.replay.more:
		case <-st.replay.answered:
		case <-ctx.Done():
			return
		}
	}
	st.replay.release()
	for {
		var m *message
		select {
		case m = <-st.requests:
			m = st.requestMissing(m)
			if m = st.plugins.request(m, st.observe(m)); m == nil {
				continue
			}
		case m = <-p.agentRequests:
		case <-ctx.Done():
			return
		}
		if up.SendMsg(m) != nil {
			return
		}
	}
}

// replayBuffer holds what Envoy sends before the first response, to replay it to another discovery
// if the first does not answer.
type replayBuffer struct {
	more     chan struct{} // has an element when a message was added
	answered chan struct{} // closed after the first response

	mu         sync.Mutex
	messages   []*message // nil where a message was dropped
	bytes      int
	incomplete bool // some messages were dropped
}

// maxReplayBytes bounds the buffer.
const maxReplayBytes = 4 << 20

func newReplayBuffer() *replayBuffer {
	return &replayBuffer{more: make(chan struct{}, 1), answered: make(chan struct{})}
}

// add appends a message. When the buffer is full, messages are kept only for the discovery that is
// already connected.
func (e *replayBuffer) add(m *message, connected bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.bytes += len(m.bytes)
	if e.bytes > maxReplayBytes {
		e.incomplete = true
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

// from returns all messages but the first n, which were sent. An incomplete buffer forgets these:
// it is not replayed.
func (e *replayBuffer) from(n int) []*message {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.incomplete {
		clear(e.messages[:n])
	}
	return slices.Clone(e.messages[n:])
}

// release drops the messages, which are not replayed any more.
func (e *replayBuffer) release() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.messages, e.incomplete = nil, true
}

// complete reports whether every message can be replayed.
func (e *replayBuffer) complete() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return !e.incomplete
}

func (e *replayBuffer) isAnswered() bool {
	select {
	case <-e.answered:
		return true
	default:
		return false
	}
}
