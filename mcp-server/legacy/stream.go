package legacy

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"

	"golang.org/x/time/rate"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/pgmesh/pgmesh/internal/ads/served"
	"github.com/pgmesh/pgmesh/internal/kit/terse"
	"github.com/pgmesh/pgmesh/mcp-server/clients"
)

const (
	// Requests that do not answer a response are limited to Galley's rate. Answers are not limited:
	// there is at most one for each response.
	requestsPerSecond = 1
	requestBurst      = 100
)

// stream serves one sink. Only its own goroutine touches it, except for the report.
type stream struct {
	source *Source
	wire   wire
	view   *served.Subscriber
	log    *slog.Logger

	watches        []*watch // in the order in which the sink first asked
	byName         map[string]*watch
	nonce          uint64        // of the last response
	requestLimiter *rate.Limiter // not for answers
	report         *streamReport
	reader         string          // whose budget its requests use
	releases       []func()        // release the memory of requests once they are answered
	client         *clients.Client // nil before the first request
}

func newStream(s *Source, w wire, view *served.Subscriber, log *slog.Logger, r *streamReport, reader string) *stream {
	return &stream{
		source: s, wire: w, view: view, log: log, byName: map[string]*watch{}, requestLimiter: rate.NewLimiter(requestsPerSecond, requestBurst), report: r, reader: reader,
	}
}

// run serves the sink until the stream ends.
func (s *stream) run(ctx context.Context, requests <-chan *request, failed <-chan error) error {
	defer s.releaseRequests()
	for {
		if err := s.advance(); err != nil {
			return err
		}
		if s.view.Snapshot() != nil { // all requests so far are answered
			s.releaseRequests()
		}
		select {
		case r := <-requests:
			if err := s.handle(ctx, r); err != nil {
				return err
			}
		case <-s.view.Changed():
		case err := <-failed:
			return err
		case <-ctx.Done():
			return nil
		case <-s.source.done:
			return errShutdown
		}
	}
}

// handle processes one request. The response to it, if any, is sent by advance.
func (s *stream) handle(ctx context.Context, r *request) error {
	if r.release != nil {
		s.releases = append(s.releases, r.release)
	}
	name := s.report.setSink(r.sink)
	if s.client == nil {
		s.client = s.source.cfg.Clients.Join(name, "legacy")
	}
	w, known := s.byName[r.collection]
	if known && w.pending != nil && r.nonce == w.pending.nonce {
		s.answered(w, r)
		w.setIncremental(r.incremental)
		return nil
	}
	if err := s.requestLimiter.Wait(ctx); err != nil {
		return status.FromContextError(ctx.Err()).Err()
	}
	if known && r.nonce != "" {
		s.log.Debug("a sink answers what is not waiting for an answer", "collection", w.name, "nonce", terse.Text(r.nonce, maxSinkBytes))
		return nil
	}
	if !known {
		var err error
		if w, err = s.watch(r.collection); err != nil {
			return err
		}
	}
	if known {
		if err := s.source.cfg.Budgets.Again.Take(ctx, s.reader, 1); err != nil {
			return err
		}
	}
	w.handleRequest(r)
	w.setIncremental(r.incremental)
	return nil
}

// releaseRequests releases the memory of answered requests.
func (s *stream) releaseRequests() {
	for _, release := range s.releases {
		release()
	}
	s.releases = nil
}

// maxWatches is far more than there are collections.
const maxWatches = 500

// watch starts watching a collection that the sink had not asked for before.
func (s *stream) watch(name string) (*watch, error) {
	c, known, exists := lookup(name)
	switch {
	case !exists:
		return nil, status.Errorf(codes.InvalidArgument, "unsupported collection %q", terse.Text(name, maxNameBytes))
	case len(s.watches) == maxWatches:
		return nil, status.Errorf(codes.ResourceExhausted, "a stream may ask for %d collections, and this one asks for more: open another", maxWatches)
	case !known:
		s.log.Warn("a sink asks for an unknown collection, and is answered that it is empty", "collection", name)
	}
	w := &watch{collection: c, name: name}
	s.byName[name] = w
	s.watches = append(s.watches, w)
	return w, nil
}

func (s *stream) answered(w *watch, r *request) {
	version, revision := w.pending.content.version, w.pending.content.revision
	if r.failure == nil {
		w.acked()
		s.report.acked(w, version)
		s.client.Accepted(w.name, revision)
		s.source.metrics.answers.WithLabelValues(label(w.name), "ack").Inc()
		return
	}
	w.nacked()
	s.report.refused(w, r.failure.GetMessage())
	s.client.Refused(w.name, revision, r.failure.GetMessage())
	s.source.metrics.answers.WithLabelValues(label(w.name), "nack").Inc()
	s.log.Warn("a sink refused a collection and keeps what it had", "collection", w.name, "version", version,
		"code", codes.Code(r.failure.GetCode()).String(), "reason", terse.Text(r.failure.GetMessage(), maxReasonBytes))
}

// leave removes the sink from the roll of clients.
func (s *stream) leave() {
	if s.client != nil {
		s.client.Leave()
	}
}

// advance sends what may be sent now: one unanswered response for each collection.
func (s *stream) advance() error {
	snap := s.view.Snapshot()
	if snap == nil {
		return nil // requests wait for the first snapshot
	}
	for _, w := range s.watches {
		if w.pending != nil {
			continue
		}
		if err := s.sync(w, snap); err != nil {
			return err
		}
	}
	return nil
}

// sync sends what the sink lacks of a collection.
func (s *stream) sync(w *watch, snap *served.Snapshot) error {
	if w.transfer != nil {
		return s.continueTransfer(w)
	}
	c, err := s.source.contents.of(w.collection, snap)
	if err != nil {
		return fmt.Errorf("%s: %w", w.name, err)
	}
	if !w.due && w.doneVersion == c.version {
		return nil
	}
	j := w.plan(c, s.wire.sendsWholes())
	if j == nil {
		return s.sendAll(w, c)
	}
	return s.startTransfer(w, j)
}

// sendAll sends a whole collection, if it fits into one message.
func (s *stream) sendAll(w *watch, c content) error {
	r := s.response(w, c)
	items := allItems(c.set)
	room := s.capacity(r)
	if r.pack(items, s.wire.field(), room) == len(items) {
		w.markDone(c)
		w.pending = &pending{nonce: r.nonce, content: c, whole: true}
		s.report.withheld(w, 0)
		return s.send(w, r, len(items))
	}
	if w.incremental { // it takes changes, so the whole may come in parts
		return s.startTransfer(w, &transfer{from: []*served.Set{nil}, to: c, items: items})
	}
	w.markDone(c)
	s.withhold(w, sizeOf(items, s.wire.field()), "")
	return nil
}

// startTransfer starts to send changes that bring a sink to a content.
func (s *stream) startTransfer(w *watch, j *transfer) error {
	room := s.capacity(s.response(w, j.to))
	if largest := j.dropLarge(s.wire.field(), room); largest > 0 {
		s.withhold(w, largest, j.tooLarge[0])
	} else {
		s.report.withheld(w, 0)
	}
	if len(j.items) == 0 && !w.due {
		w.markDone(j.to)
		w.bases = []*served.Set{withOld(j.to.set, j.tooLarge, j.from)}
		return nil
	}
	w.markDone(j.to)
	w.beginTransfer(j, sizeOf(j.items, s.wire.field()) > room)
	return s.continueTransfer(w)
}

// continueTransfer sends the next part of a transfer.
func (s *stream) continueTransfer(w *watch) error {
	j := w.transfer
	r := s.response(w, j.to)
	r.incremental = true
	n := r.pack(j.items, s.wire.field(), s.capacity(r))
	j.items = j.items[n:]
	w.pending = &pending{nonce: r.nonce, content: j.to}
	return s.send(w, r, n)
}

// response returns the next, still empty, response for a collection.
func (s *stream) response(w *watch, c content) *response {
	return &response{collection: w.name, version: c.version, nonce: strconv.FormatUint(s.nonce+1, 10)}
}

// capacity returns how many bytes the resources and removed names of a response may take.
func (s *stream) capacity(r *response) int {
	full := *r
	full.incremental = true
	return s.source.cfg.MaxMessage - proto.Size(s.wire.message(&full))
}

func (s *stream) send(w *watch, r *response, items int) error {
	s.nonce++
	m := s.wire.message(r)
	s.report.sent(w, r.version)
	s.client.Sent(w.name, w.pending.content.revision)
	s.source.metrics.sent(label(w.name), items-len(r.removed), len(r.removed))
	return s.wire.send(m)
}

// withhold reports that a sink keeps what it has because the new content is too large for a
// message.
func (s *stream) withhold(w *watch, size int, resource string) {
	s.report.withheld(w, size)
	s.source.metrics.withheld.WithLabelValues(label(w.name)).Inc()
	if resource != "" {
		s.log.Error("a resource is larger than a message to a sink may be, and was left out: the sink keeps what it has of it. "+
			"Make it smaller, or raise --legacy-max-message and what the sink receives (Pilot: --mcpMaxMsgSize)",
			"collection", w.name, "resource", resource, "bytes", size, "max_bytes", s.source.cfg.MaxMessage)
		return
	}
	s.log.Error("a collection is larger than a message to a sink may be, and was not sent: the sink keeps what it has. "+
		"Have fewer or smaller resources, or raise --legacy-max-message and what the sink receives (Pilot: --mcpMaxMsgSize)",
		"collection", w.name, "bytes", size, "max_bytes", s.source.cfg.MaxMessage)
}
