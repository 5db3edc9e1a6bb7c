package registry

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/internal/caller"
	"github.com/pgmesh/pgmesh/internal/kit/panics"
	"github.com/pgmesh/pgmesh/mcp-server/failure"
	machinev1 "github.com/pgmesh/pgmesh/proto/pgmesh/machine/v1"
	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/machines"
)

// maxChanges is the most changes in a message: they make a transaction of some hundred
// milliseconds.
const maxChanges = 1000

var (
	errUnavailable = failure.NoDatabase("the server cannot reach its database: nothing can be registered now. What is registered stays; open another session later, and tell of every machine")
	errEnded       = status.Error(codes.Unavailable, "the session counts no more: the database, or this server, was away for too long. Open another, and tell of every machine")
	errShutdown    = status.Error(codes.Unavailable, "the server is shutting down: open another session, and tell of every machine")
)

// session is one stream of a discovery. It begins in the database with its first change, so a
// discovery without machines costs the database nothing.
type session struct {
	discovery string
	id        int64 // in the database; 0 before the first change
	number    int64 // the number of its last transaction
	author    string
	lost      chan struct{} // closed when the session does not count any more

	mu        sync.Mutex
	committed int64 // the number of the last committed transaction
}

// Keep receives the changes of a discovery's machines. It handles one message at a time, and so
// slows down a fast sender.
func (r *Registry) Keep(stream grpc.BidiStreamingServer[machinev1.KeepRequest, machinev1.KeepResponse]) error {
	if !r.addStream() {
		return errShutdown
	}
	defer r.streams.Done()
	messages, failed := panics.Forwarded(stream.Context(), stream.Recv)
	var s *session
	for {
		select {
		case m := <-messages:
			if s == nil {
				begun, err := r.newSession(stream.Context(), m)
				if err != nil {
					return err
				}
				s = begun
				defer r.close(s)
			}
			if err := r.answer(stream, s, m); err != nil {
				return err
			}
		case err := <-failed:
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		case <-s.ended():
			return errEnded
		case <-r.done:
			return errShutdown
		}
	}
}

// ended returns a channel that is closed when the session does not count any more; nil for a nil
// session, before the first message.
func (s *session) ended() <-chan struct{} {
	if s == nil {
		return nil
	}
	return s.lost
}

// addStream counts a stream that Run will wait for. It reports false after Shutdown.
func (r *Registry) addStream() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return false
	}
	r.streams.Add(1)
	return true
}

// newSession returns the session that a stream's first message begins.
func (r *Registry) newSession(ctx context.Context, m *machinev1.KeepRequest) (*session, error) {
	if m.GetDiscovery() == "" {
		return nil, status.Error(codes.InvalidArgument, "discovery: the first message has to say what the discovery is called")
	}
	who := caller.From(ctx)
	s := &session{discovery: m.GetDiscovery(), lost: make(chan struct{}), author: who.Author()}
	if s.author == "" {
		s.author = "discovery " + s.discovery
	}
	r.metrics.sessions.Inc()
	r.log.Info("a discovery registers machines", "discovery", s.discovery, "caller", who.Identity())
	return s, nil
}

// open opens the session in the database, before its first change.
func (r *Registry) open(ctx context.Context, s *session) (err error) {
	if s.id != 0 {
		return nil
	}
	if s.id, err = r.machines.OpenSession(ctx, r.keeper, r.options.Name, s.discovery); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sessions[s.id] = s
	return nil
}

// close ends the session of a stream that has ended.
func (r *Registry) close(s *session) {
	r.metrics.sessions.Dec()
	if s.id == 0 {
		return
	}
	r.mu.Lock()
	delete(r.sessions, s.id)
	r.ending[s.id] = struct{}{}
	r.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), endTimeout)
	defer cancel()
	r.endSessions(ctx)
}

// answer handles one message and sends its outcomes.
func (r *Registry) answer(stream grpc.BidiStreamingServer[machinev1.KeepRequest, machinev1.KeepResponse], s *session, m *machinev1.KeepRequest) error {
	if len(m.GetChanges()) == 0 {
		return nil
	}
	if len(m.GetChanges()) > maxChanges {
		return status.Errorf(codes.InvalidArgument, "changes: there are %d, of at most %d: send several messages", len(m.GetChanges()), maxChanges)
	}
	ctx := stream.Context()
	select {
	case r.slots <- struct{}{}:
		defer func() { <-r.slots }()
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
	start := time.Now()
	var outcomes []machines.Outcome
	err := r.open(ctx, s)
	if err == nil {
		outcomes, err = r.register(ctx, s, changesOf(m.GetChanges()))
	}
	if err != nil {
		r.metrics.batches.WithLabelValues("failed").Inc()
		return r.fail(ctx, err)
	}
	r.metrics.batches.WithLabelValues("done").Inc()
	r.metrics.seconds.Observe(time.Since(start).Seconds())
	return stream.Send(&machinev1.KeepResponse{Number: m.GetNumber(), Outcomes: r.outcomesOf(outcomes)})
}

// fail turns an error into the status that the discovery gets.
func (r *Registry) fail(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return status.FromContextError(ctx.Err()).Err()
	case errors.Is(err, machines.ErrSessionEnded):
		return errEnded
	case store.Temporary(err), errors.Is(err, context.DeadlineExceeded):
		r.log.Debug("cannot register machines now", "error", err)
		return errUnavailable
	}
	r.log.Error("cannot register machines", "error", err)
	return status.Error(codes.Unavailable, "the server cannot register machines: its log says why")
}
