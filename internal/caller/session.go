package caller

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/internal/rpc"
)

// session is a stream that is open, for which what let it in has to stay true.
type session struct {
	credentials credentials
	caller      *Caller
	cancel      context.CancelCauseFunc
}

func (s *session) end(err error) { rpc.End(s.cancel, err) }

// begin opens a session for a caller that was let in. The context that it returns ends with it.
func (g *Guard) begin(ctx context.Context, c credentials, who *Caller) (context.Context, *session) {
	ctx, cancel := context.WithCancelCause(ctx)
	own := *who
	s := &session{credentials: c, caller: &own, cancel: cancel}
	own.session = s
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open[s] = struct{}{}
	return With(ctx, &own), s
}

func (g *Guard) finish(s *session) {
	s.cancel(nil)
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.open, s)
}

// recheckEvery is how long a stream may outlive what let it in: a token that expires, is revoked, or a rule that is gone.
const recheckEvery = time.Second

// Run keeps looking whether those who were let in still may be here, until the context ends.
func (g *Guard) Run(ctx context.Context) error {
	tick := time.NewTicker(recheckEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			g.Recheck()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Recheck ends the streams of callers that would not be let in again, or for something else. They come back if they may.
func (g *Guard) Recheck() {
	held := func(_ context.Context, hash TokenHash) (Token, error) { return g.cfg.Tokens.Held(hash) }
	for _, s := range g.sessions() {
		who, err := g.identify(context.Background(), s.credentials, held)
		switch {
		case status.Code(err) == codes.Unavailable:
			continue
		case err == nil && who.same(s.caller):
			continue
		case err == nil:
			err = status.Error(codes.Unavailable, "what the caller may do has changed: call again")
		}
		g.ended.Inc()
		g.cfg.Log.Info("ended a stream", "caller", s.caller.Identity(), "address", s.credentials.address, "reason", status.Convert(err).Message())
		s.end(err)
	}
}

func (g *Guard) sessions() []*session {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := make([]*session, 0, len(g.open))
	for s := range g.open {
		all = append(all, s)
	}
	return all
}
