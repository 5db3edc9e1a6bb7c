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

	"github.com/pgmesh/pgmesh/internal/ads"
	"github.com/pgmesh/pgmesh/internal/terse"
	"github.com/pgmesh/pgmesh/mcp-server/clients"
)

const (
	// A sink that asks without having been answered anything may do so as often as Galley let it. Answers are not counted: there
	// are no more of them than responses.
	asksPerSecond = 1
	asksAtOnce    = 100
)

// stream is one sink's stream. Only its own goroutine touches it, but for what it reports.
type stream struct {
	source *Source
	wire   wire
	view   *ads.Subscriber
	log    *slog.Logger

	watches []*watch // in the order in which the sink first asked
	byName  map[string]*watch
	nonce   uint64
	asks    *rate.Limiter
	report  *report
	reader  string          // to whom its requests are counted
	taken   []func()        // give the memory back of requests, once there is an answer to them
	client  *clients.Client // nil before the first request
}

func newStream(s *Source, w wire, view *ads.Subscriber, log *slog.Logger, r *report, reader string) *stream {
	return &stream{
		source: s, wire: w, view: view, log: log, byName: map[string]*watch{}, asks: rate.NewLimiter(asksPerSecond, asksAtOnce), report: r, reader: reader,
	}
}

// run exchanges until the stream ends.
func (s *stream) run(ctx context.Context, requests <-chan *request, failed <-chan error) error {
	defer s.letGo()
	for {
		if err := s.advance(); err != nil {
			return err
		}
		if s.view.Snapshot() != nil { // what was asked for is answered
			s.letGo()
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

// handle takes in one request. What it calls for is sent by advance.
func (s *stream) handle(ctx context.Context, r *request) error {
	if r.release != nil {
		s.taken = append(s.taken, r.release)
	}
	name := s.report.introduced(r.sink)
	if s.client == nil {
		s.client = s.source.cfg.Clients.Join(name, "legacy")
	}
	w, known := s.byName[r.collection]
	if known && w.pending != nil && r.nonce == w.pending.nonce {
		s.answered(w, r)
		w.take(r.incremental)
		return nil
	}
	if err := s.asks.Wait(ctx); err != nil {
		return status.FromContextError(ctx.Err()).Err()
	}
	if known && r.nonce != "" {
		s.log.Debug("a sink answers what is not waiting for an answer", "collection", w.name, "nonce", terse.Text(r.nonce, longestSink))
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
	w.ask(r)
	w.take(r.incremental)
	return nil
}

// letGo gives the memory of requests back.
func (s *stream) letGo() {
	for _, release := range s.taken {
		release()
	}
	s.taken = nil
}

// mostWatches is far more than there are collections.
const mostWatches = 500

// watch begins to watch a collection that the sink has not asked for before.
func (s *stream) watch(name string) (*watch, error) {
	c, known, exists := named(name)
	switch {
	case !exists:
		return nil, status.Errorf(codes.InvalidArgument, "unsupported collection %q", terse.Text(name, longestName))
	case len(s.watches) == mostWatches:
		return nil, status.Errorf(codes.ResourceExhausted, "a stream may ask for %d collections, and this one asks for more: open another", mostWatches)
	case !known:
		s.log.Warn("a sink asks for a collection that nobody here knows, and is told that there is nothing in it", "collection", name)
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
		"code", codes.Code(r.failure.GetCode()).String(), "reason", terse.Text(r.failure.GetMessage(), longestReason))
}

// leave takes the sink off the list of those who are connected.
func (s *stream) leave() {
	if s.client != nil {
		s.client.Leave()
	}
}

// advance sends what may be sent now: one unanswered response a collection.
func (s *stream) advance() error {
	snap := s.view.Snapshot()
	if snap == nil {
		return nil // requests are held until there is something to answer them from
	}
	for _, w := range s.watches {
		if w.pending != nil {
			continue
		}
		if err := s.bring(w, snap); err != nil {
			return err
		}
	}
	return nil
}

// bring tells a sink what there is to say of a collection.
func (s *stream) bring(w *watch, snap *ads.Snapshot) error {
	if w.journey != nil {
		return s.proceed(w)
	}
	c, err := s.source.contents.of(w.collection, snap)
	if err != nil {
		return fmt.Errorf("%s: %w", w.name, err)
	}
	if !w.due && w.settled == c.version {
		return nil
	}
	j := w.plan(c, s.wire.wholes())
	if j == nil {
		return s.sendWhole(w, c)
	}
	return s.depart(w, j)
}

// sendWhole sends the whole of a collection, if one message can hold it.
func (s *stream) sendWhole(w *watch, c content) error {
	r := s.response(w, c)
	items := whole(c.set)
	room := s.room(r)
	if r.pack(items, s.wire.field(), room) == len(items) {
		w.settle(c)
		w.pending = &pending{nonce: r.nonce, content: c, whole: true}
		s.report.withheld(w, 0)
		return s.send(w, r, len(items))
	}
	if w.incremental { // it takes parts, so the whole may come in some
		return s.depart(w, &journey{from: []*ads.Set{nil}, to: c, items: items})
	}
	w.settle(c)
	s.withhold(w, sizeOf(items, s.wire.field()), "")
	return nil
}

// depart begins to bring a sink to a content by steps.
func (s *stream) depart(w *watch, j *journey) error {
	room := s.room(s.response(w, j.to))
	if largest := j.dropLarge(s.wire.field(), room); largest > 0 {
		s.withhold(w, largest, j.stuck[0])
	} else {
		s.report.withheld(w, 0)
	}
	if len(j.items) == 0 && !w.due {
		w.settle(j.to)
		w.bases = []*ads.Set{without(j.to.set, j.stuck, j.from)}
		return nil
	}
	w.settle(j.to)
	w.embark(j, sizeOf(j.items, s.wire.field()) > room)
	return s.proceed(w)
}

// proceed sends the next part of a journey.
func (s *stream) proceed(w *watch) error {
	j := w.journey
	r := s.response(w, j.to)
	r.incremental = true
	n := r.pack(j.items, s.wire.field(), s.room(r))
	j.items = j.items[n:]
	w.pending = &pending{nonce: r.nonce, content: j.to}
	return s.send(w, r, n)
}

// response is the next response about a collection, with nothing in it.
func (s *stream) response(w *watch, c content) *response {
	return &response{collection: w.name, version: c.version, nonce: strconv.FormatUint(s.nonce+1, 10)}
}

// room is how much the resources and removed names of a response may take.
func (s *stream) room(r *response) int {
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

// withhold tells everybody who should know that a sink keeps what it has, for it could not take what there is.
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
