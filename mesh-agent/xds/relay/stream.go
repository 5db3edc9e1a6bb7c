package relay

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/internal/kit/retry"
	"github.com/pgmesh/pgmesh/mesh-agent/xds/lastgood"
	"github.com/pgmesh/pgmesh/mesh-agent/xds/passage"
	"github.com/pgmesh/pgmesh/mesh-agent/xds/wire"
)

// stream is one of Envoy's. It waits for a discovery that answers and then relays both ways, or
// serves the last good configuration.
type stream struct {
	server   *Server
	form     wire.Form
	down     grpc.ServerStream
	requests chan *message // from Envoy
	replay   *replayBuffer
	names    *nameSubscription
	kept     *lastgood.Stream // nil if nothing is stored
	plugins  *plugins         // nil if modules are not fetched
	refusals *refusals
	passage  atomic.Pointer[passage.Stream]
}

func newStream(s *Server, form wire.Form, down grpc.ServerStream) *stream {
	st := &stream{server: s, form: form, down: down, requests: make(chan *message), replay: newReplayBuffer(), refusals: newRefusals(form)}
	s.mu.Lock()
	s.refusals = st.refusals
	s.mu.Unlock()
	if s.Kept != nil {
		st.kept = s.Kept.Stream(form)
	}
	st.names = &nameSubscription{s, st.kept}
	st.plugins = newPlugins(st, s.Modules)
	return st
}

func (st *stream) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	envoyGone := make(chan struct{})
	go st.receive(ctx, envoyGone) // ends with the stream: gRPC fails RecvMsg then
	select {
	case m := <-st.requests:
		st.replay.add(st.requestMissing(m), false)
	case <-envoyGone:
		return nil
	}
	p, first, err := st.awaitDiscovery(ctx, envoyGone)
	switch {
	case errors.Is(err, errUseLastGood):
		return st.serveLastGood(ctx, envoyGone)
	case p == nil:
		return err
	}
	defer p.close()
	defer st.plugins.close()
	for _, m := range st.replay.from(0) {
		st.plugins.request(m, st.observe(m))
	}
	close(st.replay.answered)
	return st.pass(ctx, p, first, envoyGone)
}

// receive reads Envoy's requests, unbuffered for backpressure, and closes envoyGone at the end.
func (st *stream) receive(ctx context.Context, envoyGone chan struct{}) {
	defer close(envoyGone)
	for {
		m, err := receive(st.down)
		if err != nil {
			return
		}
		select {
		case st.requests <- m:
		case <-ctx.Done():
			return
		}
	}
}

// errUseLastGood ends the wait for discovery in favor of the last good configuration.
var errUseLastGood = errors.New("no discovery answers")

// awaitDiscovery waits for a discovery that answers, and returns the stream to it with the first
// response. Without one, Envoy has gone, or the error says how to end the stream.
func (st *stream) awaitDiscovery(ctx context.Context, envoyGone chan struct{}) (*discoveryStream, *message, error) {
	pauses, fallback := whileRefused.Backoff(), newFallbackTimer(st)
	defer fallback.timer.Stop()
	for {
		p := st.openDiscovery(ctx)
		first, err := st.firstAnswer(ctx, p, fallback, envoyGone)
		if first != nil {
			return p, first, nil
		}
		p.close()
		if errors.Is(err, errUseLastGood) {
			return nil, nil, err
		}
		if err == nil || !retryable(err) || !st.replay.complete() {
			return nil, nil, st.end(err)
		}
		again := time.After(max(pauses.Next(), retry.Asked(err))) // another replica may do better
		for again != nil {
			select {
			case <-again:
				again = nil
			case <-fallback.timer.C:
				if fallback.expired() {
					return nil, nil, errUseLastGood
				}
			case <-envoyGone:
				return nil, nil, nil
			}
		}
	}
}

// whileRefused are the pauses between attempts while discovery refuses the stream.
var whileRefused = retry.Pauses{First: 100 * time.Millisecond, Longest: 5 * time.Second, Growth: 2}

// firstAnswer buffers Envoy's requests until the first response. If it returns neither a response
// nor an error, the stream is over: Envoy has gone, or has to reconnect because the replay buffer
// overflowed.
func (st *stream) firstAnswer(ctx context.Context, p *discoveryStream, fallback *fallbackTimer, envoyGone chan struct{}) (*message, error) {
	opened, connected := p.opened, false
	for {
		select {
		case m := <-st.requests:
			st.replay.add(st.requestMissing(m), connected)
		case m := <-p.responses:
			return m, nil
		case err := <-p.failed:
			return nil, err
		case <-opened:
			if opened, connected = nil, true; !st.replay.complete() {
				return nil, nil
			}
		case <-fallback.timer.C:
			if fallback.expired() {
				return nil, errUseLastGood
			}
		case <-envoyGone:
			return nil, nil
		case <-ctx.Done():
			return nil, nil
		}
	}
}

// fallbackTimer decides when a stream stops waiting for discovery.
type fallbackTimer struct {
	stream *stream
	began  time.Time
	timer  *time.Timer
}

func newFallbackTimer(st *stream) *fallbackTimer {
	p := &fallbackTimer{stream: st, began: time.Now()}
	p.timer = time.NewTimer(p.left())
	return p
}

// left returns how much longer to wait. The time that discovery was away before the stream began
// counts too.
func (p *fallbackTimer) left() time.Duration {
	s := p.stream.server
	status, _ := s.Discovery.Status()
	if status.Connected {
		return time.Until(p.began.Add(firstAnswerTimeout))
	}
	since := p.began
	if status.Since.Before(since) {
		since = status.Since
	}
	return time.Until(since.Add(s.FallbackAfter))
}

// expired reports whether to serve the last good configuration. Otherwise it resets the timer.
func (p *fallbackTimer) expired() bool {
	s := p.stream.server
	left := p.left()
	if left <= 0 && s.Kept != nil && p.stream.replay.complete() && newFallback(p.stream.form, s.Kept).lacks(p.stream.replay.from(0)) {
		return true
	}
	p.timer.Reset(max(left, pollInterval))
	return false
}

// pollInterval is how often expired looks at what a waiting Envoy asks for.
const pollInterval = 250 * time.Millisecond

// pass relays discovery's responses.
func (st *stream) pass(ctx context.Context, p *discoveryStream, m *message, envoyGone chan struct{}) error {
	if err := st.deliver(ctx, p, m); err != nil {
		return err
	}
	for {
		var err error
		select {
		case m = <-p.responses:
			err = st.deliver(ctx, p, m)
		case <-st.plugins.news():
			err = st.plugins.advance(ctx, p)
		case err := <-p.failed:
			return st.end(err)
		case <-envoyGone:
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// deliver sends a response to Envoy, unless it answers the agent's own subscription.
func (st *stream) deliver(ctx context.Context, p *discoveryStream, m *message) error {
	r, err := wire.ParseResponse(st.form, m.bytes)
	if err != nil {
		st.server.Log.Error("cannot parse discovery's response; it is passed on to Envoy", "error", err)
		return st.down.SendMsg(m)
	}
	st.server.markSynced()
	if st.plugins.handles(r.TypeURL) {
		return st.plugins.respond(r)
	}
	st.kept.OnResponse(r)
	if st.names.wanted() && r.TypeURL == nameTable {
		select {
		case p.agentRequests <- st.names.accept(st.form, r):
		case <-ctx.Done():
		}
		return nil
	}
	st.passage.Load().Response(r)
	st.refusals.response(r)
	return st.down.SendMsg(m)
}

// sendDown sends Envoy a response that is not as discovery sent it.
func (st *stream) sendDown(r *wire.Response) error {
	st.kept.OnResponse(r)
	st.refusals.response(r)
	return st.down.SendMsg(&message{r.Encode(st.form)})
}

// requestMissing makes discovery resend what Envoy has and the store lacks, as a last good
// configuration with holes would be useless. It clears the versions of those resources, and is the
// only change to Envoy's requests.
func (st *stream) requestMissing(m *message) *message {
	if st.form == wire.SotW || st.kept == nil { // SotW sends everything again anyway
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

// observe looks at a request before discovery gets it, and returns it as far as it can be parsed.
func (st *stream) observe(m *message) *wire.Request {
	r, err := wire.ParseRequest(st.form, m.bytes)
	if err != nil {
		st.server.Log.Error("cannot parse Envoy's request; it is passed on to discovery", "error", err)
		return nil
	}
	if r.Refused {
		st.server.refused(r)
	}
	st.refusals.request(r)
	st.passage.Load().Request(r)
	st.kept.OnRequest(r)
	return r
}

// retryable reports whether another attempt may succeed after this end of a stream.
func retryable(err error) bool {
	switch status.Code(err) {
	case codes.Unavailable, codes.ResourceExhausted:
		return true
	case codes.Canceled: // the connection was replaced by a newer one
		return true
	}
	return false
}

// end returns how Envoy's stream ends after discovery's has. An error that goes to Envoy is noted:
// discovery has refused the proxy.
func (st *stream) end(err error) error {
	out := streamStatus(err)
	if out != nil {
		st.server.markTurnedAway(status.Convert(out).Message())
	}
	return out
}

// streamStatus returns how Envoy's stream ends. Envoy reconnects by itself with growing backoff,
// and logs an error.
func streamStatus(err error) error {
	if err == nil || errors.Is(err, io.EOF) || retryable(err) {
		return nil
	}
	return err
}
