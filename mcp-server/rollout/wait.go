package rollout

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/internal/caller"
	"github.com/pgmesh/pgmesh/mcp-server/failure"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

const (
	// refusalStands is how long proxies have to go on refusing before nobody waits for them any more.
	// A proxy counts as refusing also while what mends it is on its way, and while it is found out
	// which of its resources is the wrong one.
	refusalStands = 2 * time.Second

	// maxBehind is how many proxies are named that do not run a revision.
	maxBehind = 5
)

var (
	errTooManyWait  = status.Errorf(codes.ResourceExhausted, "%d callers wait for proxies at this server, which is as many as may: try again later, or ask GET /v1/proxies", maxWaits)
	errWaitShutdown = status.Error(codes.Unavailable, "the server is shutting down: wait at another, or later")
)

// wait is one call of WaitUntilRun.
type wait struct {
	*Service

	send       func(*adminv1.WaitUntilRunResponse) error
	revision   int64
	namespaces []string // nil for all
	enough     enough
	ending     time.Time

	told     census // what was sent last
	telling  bool   // something was sent
	refusing time.Time
}

// WaitUntilRun waits until so many proxies run a revision.
func (s *Service) WaitUntilRun(req *adminv1.WaitUntilRunRequest, stream grpc.ServerStreamingServer[adminv1.WaitUntilRunResponse]) error {
	ctx := stream.Context()
	w, err := s.newWait(ctx, req)
	if err != nil {
		return err
	}
	select {
	case s.waits <- struct{}{}:
		defer func() { <-s.waits }()
	default:
		return errTooManyWait
	}
	w.send = stream.Send
	return w.run(ctx)
}

// newWait returns what a request asks for, as far as its caller may.
func (s *Service) newWait(ctx context.Context, req *adminv1.WaitUntilRunRequest) (*wait, error) {
	namespaces, err := caller.From(ctx).Readable(nil, "see the proxies")
	if err != nil {
		return nil, caller.StatusOf(err)
	}
	enough, err := enoughOf(req)
	if err != nil {
		return nil, err
	}
	timeout, err := timeoutOf(req)
	if err != nil {
		return nil, err
	}
	ending := time.Now().Add(timeout)
	newest, err := s.store.Newest(ctx)
	if err != nil {
		return nil, failure.Status(s.log, "which revision is the newest", err)
	}
	w := &wait{Service: s, revision: req.GetRevision(), namespaces: namespaces, enough: enough, ending: ending}
	switch {
	case w.revision < 0:
		return nil, status.Error(codes.InvalidArgument, "revision: must not be negative")
	case w.revision > newest:
		return nil, notYet(w.revision, newest)
	case w.revision == 0:
		w.revision = newest
	}
	return w, nil
}

// run looks until there is an outcome.
func (w *wait) run(ctx context.Context) error {
	after := time.Now() // a caller asks how things stand now, not how they stood
	for {
		come := w.news.come()
		tallied, err := w.lookout.look(ctx, after)
		if err != nil {
			return w.failed(ctx, err)
		}
		c := count(tallied.seen, w.revision, w.namespaces)
		if outcome := w.outcome(c, time.Now()); outcome != adminv1.WaitUntilRunResponse_OUTCOME_UNSPECIFIED {
			return w.conclude(ctx, c, outcome)
		}
		if err := w.tell(c); err != nil {
			return err
		}
		if err := w.rest(ctx, earlier(tallied.again(), w.ending), earlier(tallied.stale(), w.ending), come); err != nil {
			return err
		}
		after = later(after, w.news.since())
	}
}

// rest returns at a time, if there is news by then, or else with the news or when what is known is
// stale.
func (s *Service) rest(ctx context.Context, again, stale time.Time, come <-chan struct{}) error {
	for at := stale; ; at, come = again, nil {
		next := time.NewTimer(time.Until(at))
		select {
		case <-next.C:
			return nil
		case <-come:
			next.Stop()
		case <-ctx.Done():
			next.Stop()
			return status.FromContextError(ctx.Err()).Err()
		case <-s.done:
			next.Stop()
			return errWaitShutdown
		}
	}
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// outcome says how the wait ends, if it does.
func (w *wait) outcome(c census, now time.Time) adminv1.WaitUntilRunResponse_Outcome {
	switch {
	case !w.enough.refused(c):
		w.refusing = time.Time{}
	case w.refusing.IsZero():
		w.refusing = now
	}
	switch {
	case w.enough.reached(c):
		return adminv1.WaitUntilRunResponse_OUTCOME_DONE
	case !w.refusing.IsZero() && now.Sub(w.refusing) >= refusalStands:
		return adminv1.WaitUntilRunResponse_OUTCOME_REFUSED
	case !now.Before(w.ending):
		return adminv1.WaitUntilRunResponse_OUTCOME_LATE
	}
	return adminv1.WaitUntilRunResponse_OUTCOME_UNSPECIFIED
}

// tell sends the numbers if they have changed.
func (w *wait) tell(c census) error {
	if w.telling && c == w.told {
		return nil
	}
	w.telling, w.told = true, c
	return w.send(w.response(c))
}

func (w *wait) response(c census) *adminv1.WaitUntilRunResponse {
	return &adminv1.WaitUntilRunResponse{Revision: w.revision, Running: int32(c.running), Connected: int32(c.connected), Refusing: int32(c.refusing)}
}

// conclude sends the last message, which names who is behind unless all is well.
func (w *wait) conclude(ctx context.Context, c census, outcome adminv1.WaitUntilRunResponse_Outcome) error {
	last := w.response(c)
	last.Outcome = outcome
	if outcome == adminv1.WaitUntilRunResponse_OUTCOME_DONE {
		return w.send(last)
	}
	behind, err := w.store.Behind(ctx, w.namespaces, w.revision, maxBehind)
	if err != nil {
		return w.failed(ctx, err)
	}
	for _, p := range behind {
		last.Behind = append(last.Behind, &adminv1.WaitUntilRunResponse_Behind{
			Namespace: p.Namespace, Proxy: p.Proxy, State: p.State, Sent: p.Sent, Runs: p.Runs, Refused: p.Refused, Reason: p.Reason,
		})
	}
	return w.send(last)
}
