package mcp

import (
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/pgmesh/pgmesh/kinds"
	mcpv1 "github.com/pgmesh/pgmesh/proto/pgmesh/mcp/v1"
)

// gather takes in one response, and returns what is wrong with the resources that cannot be decoded. The others count, and
// of those the last good state stays.
func (s *session) gather(kind *kinds.Kind, r *response) *refusal {
	l, absent := s.state.list(kind, r.typeURL), map[string]bool{}
	if r.full {
		absent = l.all()
	}
	undecodable := &refusal{code: codes.InvalidArgument}
	for items := range slices.Chunk(r.resources, lookAtOnce) {
		looks := s.lookAt(kind, l, items)
		for i := range looks {
			k := &looks[i]
			if err := s.take(kind, l, k); err != nil {
				undecodable.add(err)
			}
			delete(absent, k.name)
			if k.name == "" {
				clear(absent) // it could be any of these
			}
		}
		clear(looks)
	}
	for name := range absent {
		s.state.remove(kind, l, name)
	}
	for _, name := range r.removed {
		s.state.remove(kind, l, plain(name))
	}
	if len(undecodable.named) > 0 {
		return undecodable
	}
	return nil
}

// take takes in one resource, if it says something new. A response may have it twice: what was news when it was looked at may be none
// any more, and the other way round.
func (s *session) take(kind *kinds.Kind, l *list, k *look) error {
	if k.err != nil || !k.isNews(l) {
		return k.err
	}
	if k.now.resource == nil {
		var err error
		if k.now.resource, err = k.decode(); err != nil {
			return err
		}
	}
	if s.client.cfg.Bodies {
		k.now.body = k.sent()
	}
	s.state.put(kind, l, k.name, k.now)
	return nil
}

// deliverUnmarked delivers what a server sent that does not say where batches end: all of it once everything was answered,
// and then each response by itself.
func (s *session) deliverUnmarked() error {
	if s.batching || s.silent > 0 || s.lingers() {
		return nil
	}
	return s.deliver(mark{}, time.Time{})
}

// endOfBatch delivers what was gathered as one, under the revision that the server names.
func (s *session) endOfBatch(r *response) error {
	if len(r.resources) == 0 { // as a server answers that knows nothing of batches, whatever it calls itself
		return s.noBatches(r)
	}
	end := &mcpv1.Batch{}
	if err := r.resources[0].any().UnmarshalTo(end); err != nil {
		return s.answer(r, refuse(codes.InvalidArgument, fmt.Errorf("decode the end of a batch: %w", err)))
	}
	at := mark{end.GetRevision(), string(r.resources[0].version)}
	if err := s.behind(at); err != nil {
		return err
	}
	if err := s.deliver(at, committed(end)); err != nil {
		return err
	}
	s.from()
	return s.answer(r, nil)
}

// committed is when a batch was, the zero time if its end does not tell.
func committed(end *mcpv1.Batch) time.Time {
	if at := end.GetCommitted(); at.IsValid() {
		return at.AsTime()
	}
	return time.Time{}
}

func (s *session) noBatches(r *response) error {
	s.pgmesh, s.batching = false, false
	for _, k := range s.client.cfg.Kinds {
		if !s.confirmed(k) {
			continue
		}
		if err := s.askOthers(k); err != nil {
			return err
		}
	}
	if err := s.deliverUnmarked(); err != nil {
		return err
	}
	return s.answer(r, nil)
}

// mark is the end of a batch: the zero one if the server sends none.
type mark struct {
	revision int64
	version  string
}

func (s *session) deliver(end mark, committed time.Time) error {
	s.forgetUnasked()
	unexpected := !s.batching || !s.delivered // a revision that follows another is somebody's doing
	batch, holds := s.client.holds.judge(s.state.batch(end), s.state, unexpected, s.confirmed)
	batch.Committed = committed
	if len(batch.Changes) > 0 || !s.client.Status().Synced || end != s.client.last {
		if err := s.apply(batch); err != nil {
			return &applyError{err}
		}
	}
	s.state.settle()
	holds.report(s.client.cfg.Log, s.client.holds)
	s.client.holds, s.client.last, s.delivered = holds, end, true
	s.client.delivered()
	s.awaitRelease()
	return nil
}

// awaitRelease sets the timer for what is held to the time when it need not be any longer.
func (s *session) awaitRelease() {
	s.release.Stop()
	if left, some := s.client.holds.left(s.confirmed); some {
		s.release.Reset(left)
	}
}
