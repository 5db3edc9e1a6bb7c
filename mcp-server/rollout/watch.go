package rollout

import (
	"context"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/pgmesh/pgmesh/internal/caller"
	"github.com/pgmesh/pgmesh/mcp-server/failure"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
	"github.com/pgmesh/pgmesh/store/rollout"
)

const (
	// watchInterval is how often rollouts are read while somebody watches: for revisions that concern
	// nobody, and for reports that other servers take.
	watchInterval = 500 * time.Millisecond

	// watchPause lies between two readings for one watcher, however much happens.
	watchPause = 50 * time.Millisecond

	// unpushed is for how long a revision that concerns nobody may still come to concern somebody.
	unpushed = 10 * time.Second

	// maxUnsettled is how many revisions are read again: what is refused for long is read no more.
	maxUnsettled = 200
)

var errTooManyWatch = status.Errorf(codes.ResourceExhausted, "%d callers watch rollouts at this server, which is as many as may: try again later, or ask GET /v1/rollouts", maxWatches)

// watch is one call of WatchRollouts.
type watch struct {
	*Service

	send       func(*adminv1.WatchRolloutsResponse) error
	namespaces []string // nil for all

	told map[int64]*adminv1.Rollout // what was sent last of each that may still differ
	from int64                      // the first revision that may
}

// WatchRollouts sends the latest rollouts, and then those that differ.
func (s *Service) WatchRollouts(req *adminv1.WatchRolloutsRequest, stream grpc.ServerStreamingServer[adminv1.WatchRolloutsResponse]) error {
	ctx := stream.Context()
	namespaces, err := caller.From(ctx).Readable(req.GetNamespaces(), "see the proxies")
	if err != nil {
		return caller.StatusOf(err)
	}
	limit, err := limitOf(req.GetLimit(), 1)
	if err != nil {
		return err
	}
	select {
	case s.watches <- struct{}{}:
		defer func() { <-s.watches }()
	default:
		return errTooManyWatch
	}
	w := &watch{Service: s, send: stream.Send, namespaces: namespaces, told: map[int64]*adminv1.Rollout{}}
	return w.run(ctx, limit)
}

// run reads again and again. It begins with so many revisions.
func (w *watch) run(ctx context.Context, limit int) error {
	for ; ; limit = maxRolloutsListed {
		come, begun := w.news.come(), time.Now()
		list, err := w.store.Latest(ctx, w.namespaces, w.from, limit)
		if err != nil {
			return w.failed(ctx, err)
		}
		slices.Reverse(list)
		if err := w.tell(list); err != nil {
			return err
		}
		w.settle(list)
		read := time.Since(begun)
		if err := w.rest(ctx, time.Now().Add(max(watchPause, read)), time.Now().Add(max(watchInterval, read)), come); err != nil {
			return err
		}
	}
}

// tell sends the rollouts that differ from what was sent, in one message.
func (w *watch) tell(list []rollout.Progress) error {
	m := &adminv1.WatchRolloutsResponse{}
	for _, p := range list {
		r := rolloutOf(p)
		if !proto.Equal(w.told[p.Revision], r) {
			m.Rollouts = append(m.Rollouts, r)
			w.told[p.Revision] = r
		}
	}
	if len(m.GetRollouts()) == 0 {
		return nil
	}
	return w.send(m)
}

// settle notes from which revision on there may be something new, so that what is over is not read
// again.
func (w *watch) settle(list []rollout.Progress) {
	if len(list) == 0 {
		return
	}
	w.from = list[len(list)-1].Revision
	for _, p := range list[max(0, len(list)-maxUnsettled):] {
		if p.ToAnswer > 0 || p.Refused > 0 || p.Concerned == 0 && time.Since(p.Committed) < unpushed {
			w.from = p.Revision
			break
		}
	}
	for revision := range w.told {
		if revision < w.from {
			delete(w.told, revision)
		}
	}
}

// failed turns an error of the store into the status that the caller gets.
func (s *Service) failed(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return status.FromContextError(ctx.Err()).Err()
	}
	return failure.Status(s.log, "which revision proxies run", err)
}
