package mcp

import (
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/pgmesh/pgmesh/kinds"
	mcpv1 "github.com/pgmesh/pgmesh/proto/pgmesh/mcp/v1"
)

// merge adds one response to the state. It returns a refusal that names the resources that cannot
// be decoded. Of these the last good state stays; the others count.
func (s *session) merge(kind *kinds.Kind, r *response) *refusal {
	l, absent := s.state.list(kind, r.typeURL), map[string]bool{}
	if r.full {
		absent = l.all()
	}
	undecodable := &refusal{code: codes.InvalidArgument}
	for items := range slices.Chunk(r.resources, decodeChunk) {
		results := s.decodeAll(kind, l, items)
		for i := range results {
			k := &results[i]
			if err := s.mergeOne(kind, l, k); err != nil {
				undecodable.add(err)
			}
			delete(absent, k.name)
			if k.name == "" {
				clear(absent) // any of the absent ones could be this one
			}
		}
		clear(results)
	}
	for name := range absent {
		s.state.remove(kind, l, name)
	}
	for _, name := range r.removed {
		s.state.remove(kind, l, trimSlash(name))
	}
	if len(undecodable.named) > 0 {
		return undecodable
	}
	return nil
}

// mergeOne adds one resource, if it changed. It checks again because a response may have a resource
// twice: since the first check, an earlier copy may have been added.
func (s *session) mergeOne(kind *kinds.Kind, l *list, k *decoded) error {
	if k.err != nil || !k.changed(l) {
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

// deliverUnmarked delivers what a server sent that does not mark the ends of batches: the first
// batch once all required subscriptions are answered, then one batch per response.
func (s *session) deliverUnmarked() error {
	if s.batching || s.unanswered > 0 || s.waitsForOptional() {
		return nil
	}
	return s.deliver(batchEnd{}, time.Time{})
}

// endOfBatch delivers what was received as one batch, with the revision in the mark.
func (s *session) endOfBatch(r *response) error {
	if len(r.resources) == 0 { // a server that has no batches answers like this, whatever its identifier says
		return s.noBatches(r)
	}
	end := &mcpv1.Batch{}
	if err := r.resources[0].any().UnmarshalTo(end); err != nil {
		return s.answer(r, refuse(codes.InvalidArgument, fmt.Errorf("decode the end of a batch: %w", err)))
	}
	at := batchEnd{end.GetRevision(), string(r.resources[0].version)}
	if err := s.checkBehind(at); err != nil {
		return err
	}
	if err := s.deliver(at, committed(end)); err != nil {
		return err
	}
	s.recordMesh()
	return s.answer(r, nil)
}

// committed returns when a batch was committed, zero if its mark does not say.
func committed(end *mcpv1.Batch) time.Time {
	if at := end.GetCommitted(); at.IsValid() {
		return at.AsTime()
	}
	return time.Time{}
}

// noBatches goes on with a server as with one of somebody else: it is asked for the kinds' other
// names, too, and each response is a batch.
func (s *session) noBatches(r *response) error {
	s.pgmesh, s.batching = false, false
	for _, k := range s.client.cfg.Kinds {
		if !s.confirmed(k) {
			continue
		}
		if err := s.askOtherNames(k); err != nil {
			return err
		}
	}
	if err := s.deliverUnmarked(); err != nil {
		return err
	}
	return s.answer(r, nil)
}

// batchEnd identifies the end of a batch. It is zero if the server sends none.
type batchEnd struct {
	revision int64
	version  string
}

// deliver passes on what was received as a batch. It leaves out an empty one, unless that is the
// first or moves the end on.
func (s *session) deliver(end batchEnd, committed time.Time) error {
	s.removeUnsubscribed()
	unexpected := !s.batching || !s.delivered // after that, a revision that empties a kind is a deliberate change
	batch, holds := s.client.holds.filter(s.state.batch(end), s.state, unexpected, s.confirmed)
	batch.Committed = committed
	if len(batch.Changes) > 0 || !s.client.Status().Synced || end != s.client.lastEnd {
		if err := s.apply(batch); err != nil {
			return &applyError{err}
		}
	}
	s.state.commit()
	holds.report(s.client.cfg.Log, s.client.holds)
	first := !s.delivered
	s.tellReturn(end)
	s.client.holds, s.client.lastEnd, s.delivered = holds, end, true
	s.client.delivered()
	if first && s.client.cfg.Synced != nil {
		s.client.cfg.Synced()
	}
	s.awaitRelease()
	return nil
}

// awaitRelease sets the timer for the kinds that are held.
func (s *session) awaitRelease() {
	s.holdTimer.Stop()
	if left, some := s.client.holds.nextRelease(s.confirmed); some {
		s.holdTimer.Reset(left)
	}
}
