package rollout

import (
	"context"
	"errors"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/internal/caller"
	"github.com/pgmesh/pgmesh/internal/kit/panics"
	"github.com/pgmesh/pgmesh/internal/kit/retry"
	"github.com/pgmesh/pgmesh/internal/kit/terse"
	"github.com/pgmesh/pgmesh/mcp-server/failure"
	rolloutv1 "github.com/pgmesh/pgmesh/proto/pgmesh/rollout/v1"
	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/rollout"
)

const (
	// maxAttempts is how often a message that conflicts with another transaction is written.
	maxAttempts = 3

	// maxName is how much of the name of a discovery is logged.
	maxName = 253
)

var (
	errUnavailable = failure.NoDatabase("the server cannot reach its database: nothing can be reported now. Begin another report later, and describe every proxy")
	errEnded       = status.Error(codes.Unavailable, "the report counts no more: the server lost its database. Begin another, and describe every proxy")
	errShutdown    = status.Error(codes.Unavailable, "the server is shutting down: begin another report, and describe every proxy")
)

type reportStream = grpc.BidiStreamingServer[rolloutv1.ReportRequest, rolloutv1.ReportResponse]

// report is one stream of a discovery. It begins in the database with its first message.
type report struct {
	*Service

	stream reportStream
	term   *term // nil before the first message
	id     int64 // in the database; 0 before it is there
}

// Report receives the report of a discovery. It handles one message at a time, and so slows down a
// fast sender.
func (s *Service) Report(stream reportStream) error {
	if !s.addStream() {
		return errShutdown
	}
	defer s.streams.Done()
	messages, failed := panics.Forwarded(stream.Context(), stream.Recv)
	r := &report{Service: s, stream: stream}
	defer r.end()
	for {
		select {
		case m := <-messages:
			if err := r.answer(stream.Context(), m); err != nil {
				return err
			}
		case err := <-failed:
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		case <-r.lost():
			return errEnded
		case <-s.done:
			return errShutdown
		}
	}
}

// addStream counts a stream that Run will wait for. It reports false after Shutdown.
func (s *Service) addStream() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.streams.Add(1)
	return true
}

// lost returns a channel that is closed when the report counts no more; nil before the first
// message.
func (r *report) lost() <-chan struct{} {
	if r.term == nil {
		return nil
	}
	return r.term.lost
}

// answer writes one message, and says so.
func (r *report) answer(ctx context.Context, m *rolloutv1.ReportRequest) error {
	message, err := r.read(m)
	if err != nil {
		r.metrics.messages.WithLabelValues("refused").Inc()
		return err
	}
	if err := r.take(ctx, m.GetDiscovery(), message); err != nil {
		return r.fail(ctx, err)
	}
	r.metrics.messages.WithLabelValues("done").Inc()
	return r.stream.Send(&rolloutv1.ReportResponse{Number: m.GetNumber()})
}

// take writes a message once there is a slot.
func (r *report) take(ctx context.Context, discovery string, m rollout.Message) error {
	select {
	case r.slots <- struct{}{}:
		defer func() { <-r.slots }()
	case <-ctx.Done():
		return ctx.Err()
	}
	start := time.Now()
	if err := r.begin(ctx, discovery); err != nil {
		return err
	}
	if err := r.write(ctx, m); err != nil {
		return err
	}
	r.metrics.seconds.Observe(time.Since(start).Seconds())
	r.news.tell()
	return nil
}

// begin begins the report in the database, with its first message.
func (r *report) begin(ctx context.Context, discovery string) (err error) {
	if r.id != 0 {
		return nil
	}
	if r.term, err = r.join(ctx); err != nil {
		return err
	}
	if r.id, err = r.term.keeper.Begin(ctx, discovery); err != nil {
		return err
	}
	r.metrics.reports.Inc()
	r.log.Info("a discovery reports its proxies", "discovery", terse.Text(discovery, maxName), "caller", caller.From(ctx).Identity())
	return nil
}

// write writes a message, again if it conflicts with another transaction.
func (r *report) write(ctx context.Context, m rollout.Message) error {
	conflicts := retry.Loop{Pauses: retry.Pauses{First: 25 * time.Millisecond, Longest: 50 * time.Millisecond, Growth: 2, Jitter: 1}, Attempts: maxAttempts}
	return conflicts.Until(ctx, func() error {
		err := r.term.keeper.Report(ctx, r.id, m)
		if err != nil && !errors.Is(err, store.ErrConflict) {
			return retry.Stop(err)
		}
		return err
	})
}

// end ends the report of a stream that has ended.
func (r *report) end() {
	if r.term == nil {
		return
	}
	defer r.leave(r.term)
	if r.id == 0 {
		return
	}
	r.metrics.reports.Dec()
	select {
	case <-r.term.lost:
		return
	default:
	}
	ctx, cancel := context.WithTimeout(context.Background(), endTimeout)
	defer cancel()
	if err := r.term.keeper.End(ctx, r.id); err != nil {
		r.log.Debug("cannot say that a report of proxies has ended", "error", err)
	}
}

// fail turns an error into the status that the discovery gets, and counts it.
func (r *report) fail(ctx context.Context, err error) error {
	if invalid, is := errors.AsType[*store.InvalidError](err); is {
		r.metrics.messages.WithLabelValues("refused").Inc()
		return status.Error(codes.InvalidArgument, invalid.Error())
	}
	r.metrics.messages.WithLabelValues("failed").Inc()
	switch {
	case ctx.Err() != nil:
		return status.FromContextError(ctx.Err()).Err()
	case errors.Is(err, rollout.ErrEnded):
		r.recheck()
		return errEnded
	case store.Temporary(err), errors.Is(err, context.DeadlineExceeded):
		r.recheck()
		r.log.Debug("cannot write down what proxies run now", "error", err)
		return errUnavailable
	}
	r.log.Error("cannot write down what proxies run", "error", err)
	return status.Error(codes.Unavailable, "the server cannot write the report down: its log says why")
}
