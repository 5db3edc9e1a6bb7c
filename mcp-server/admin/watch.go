package admin

import (
	"context"
	"errors"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/internal/caller"
	"github.com/pgmesh/pgmesh/internal/kit/stamp"
	"github.com/pgmesh/pgmesh/internal/selector"
	"github.com/pgmesh/pgmesh/kinds"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/feed"
	"github.com/pgmesh/pgmesh/store/resources"
)

// Watch streams changes as they are committed. It reads the store whenever this server publishes a
// new snapshot, so a waiting watch holds no connection to the database.
func (s *Service) Watch(req *adminv1.WatchRequest, stream grpc.ServerStreamingServer[adminv1.WatchResponse]) error {
	ctx := stream.Context()
	var f fields
	w := &watcher{send: stream.Send, selection: f.selection(req), labels: f.labels(req.GetLabelSelector()), lastSent: time.Now()}
	if req.GetAfter() < 0 {
		f.addf("after", "must not be negative")
	}
	if err := f.err(); err != nil {
		return err
	}
	if err := narrow(ctx, caller.Read, &w.selection); err != nil {
		return err
	}
	w.limited = !caller.From(ctx).Unlimited(caller.Read)
	news := s.news()
	defer news.Close()
	if err := s.begin(ctx, w, req.After); err != nil {
		return s.failStream(ctx, err)
	}
	for {
		if err := s.sendNew(ctx, w); err != nil {
			return s.failStream(ctx, err)
		}
		select {
		case <-news.Changed():
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		case <-s.done:
			return errShutdown
		}
	}
}

var errShutdown = status.Error(codes.Unavailable, "the server is shutting down: watch again, after the last revision")

// begin finds the position where the watch starts, fails if history no longer reaches back there,
// and sends the revision.
func (s *Service) begin(ctx context.Context, w *watcher, after *int64) (err error) {
	if after == nil {
		w.at, err = s.feed.Newest(ctx)
	} else {
		w.at = feed.At(*after)
		_, _, err = s.feed.Since(ctx, w.at)
	}
	if err != nil {
		return err
	}
	return w.send(&adminv1.WatchResponse{Revision: &adminv1.Revision{Revision: w.at.Revision}})
}

// sendNew sends everything committed since the watcher's position.
func (s *Service) sendNew(ctx context.Context, w *watcher) error {
	for more := true; more; {
		var batches []feed.Batch
		var err error
		if batches, more, err = s.feed.Since(ctx, w.at); err != nil {
			return err
		}
		for i := range batches {
			if err := w.sendBatch(&batches[i]); err != nil {
				return err
			}
			w.at, batches[i] = batches[i].Position(), feed.Batch{}
		}
	}
	return nil
}

// watcher is one watch, with its selection and its position.
type watcher struct {
	send      func(*adminv1.WatchResponse) error
	selection resources.Selection
	labels    selector.Selector
	at        feed.Position // everything up to here was sent
	limited   bool          // the caller may not read everything
	lastSent  time.Time     // when a message was sent last
}

const (
	// maxPortionBytes bounds a message of a stream, unless a single resource is larger.
	maxPortionBytes = 1 << 20
	// heartbeatInterval is how long a watcher may go without a message while revisions pass that do
	// not concern it.
	heartbeatInterval = 30 * time.Second
)

// sendBatch sends the changes of a batch that concern the watcher, in portions, or a heartbeat when
// one is due.
func (w *watcher) sendBatch(b *feed.Batch) error {
	revision := &adminv1.Revision{
		Revision: b.Revision, Author: b.Author, Application: b.Application, Message: b.Message, Time: stamp.Of(b.Time), Size: int32(len(b.Changes)),
	}
	size, concerned := 0, false
	for i := range b.Changes {
		c := &b.Changes[i]
		if !w.concerns(c) {
			continue
		}
		if concerned && (len(revision.Changes) == maxPortionSize || size > maxPortionBytes) {
			if err := w.send(&adminv1.WatchResponse{Revision: revision, Partial: true}); err != nil {
				return err
			}
			revision.Changes, size = nil, 0
		}
		change, err := changeOf(operationOf(c), c)
		if err != nil {
			return err
		}
		revision.Changes, concerned = append(revision.Changes, change), true
		size += sizeOf(c.Before) + sizeOf(c.After)
	}
	if !concerned && time.Since(w.lastSent) < heartbeatInterval {
		return nil
	}
	if !concerned && w.limited {
		revision = &adminv1.Revision{Revision: b.Revision, Time: stamp.Of(b.Time)}
	}
	w.lastSent = time.Now()
	return w.send(&adminv1.WatchResponse{Revision: revision})
}

func (w *watcher) concerns(c *feed.Change) bool {
	s := w.selection
	return (len(s.Kinds) == 0 || slices.ContainsFunc(s.Kinds, func(k *kinds.Kind) bool { return k == c.Key.Kind })) &&
		(len(s.Namespaces) == 0 || slices.Contains(s.Namespaces, c.Key.Namespace)) &&
		(len(s.Names) == 0 || slices.Contains(s.Names, c.Key.Name)) &&
		(c.Before != nil && w.labels.Matches(c.Before.Labels) || c.After != nil && w.labels.Matches(c.After.Labels))
}

func operationOf(c *feed.Change) store.Operation {
	switch {
	case c.Before == nil:
		return store.Create
	case c.After == nil:
		return store.Delete
	}
	return store.Update
}

func sizeOf(r *store.Resource) int {
	if r == nil {
		return 0
	}
	return len(r.Spec)
}

// tooOld reports whether history no longer reaches back to where the watch was to start.
func tooOld(err error) bool { return errors.Is(err, feed.ErrTooOld) }
