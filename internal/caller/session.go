package caller

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/internal/rpc"
)

// session is an open stream, with the credentials that must stay valid for it to continue.
type session struct {
	credentials credentials
	caller      *Caller
	cancel      context.CancelCauseFunc
}

func (s *session) end(err error) { rpc.End(s.cancel, err) }

// begin opens a session for an admitted caller and returns a context that ends with it.
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

// recheckEvery bounds how long a stream outlives its permission: a token that expired or was
// revoked, or a rule that was removed.
const recheckEvery = time.Second

// Run rechecks all sessions periodically until ctx ends.
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

// Recheck ends the streams of callers that would no longer be let in, or with other scopes. The
// callers may come back.
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
