package mcp

import (
	"context"
	"errors"
	"io"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/pgmesh/pgmesh/internal/kit/panics"
	"github.com/pgmesh/pgmesh/kinds"
	mcpv1 "github.com/pgmesh/pgmesh/proto/pgmesh/mcp/v1"
)

// session is one stream: its subscriptions, their answers, and the responses of an unfinished
// batch.
type session struct {
	client *Client
	at     *server
	wire   wire
	state  *state
	apply  func(kinds.Batch) error
	outbox *outbox

	responded bool // the server has sent something
	delivered bool
	pgmesh    bool // a pgmesh server: its versions are hashes of content, its nonces count up
	batching  bool // the server marks the ends of batches

	subscriptions    map[string]*subscription
	unanswered       int         // required subscriptions without an answer
	answerTimer      *time.Timer // fires when the server does not answer
	holdTimer        *time.Timer // fires when held kinds can be released
	optionalTimer    *time.Timer // for kinds that may stay unanswered; nil until all others are answered
	optionalTimedOut bool
	accepted         map[string]string // the version of the last accepted response, by type URL
	lastNonce        uint64            // of the last processed response of a pgmesh server
	reordered        map[uint64]*response
	decoded          []decoded // buffer of decodeAll, reused
}

// subscription is one name by which a kind is subscribed to on this stream.
type subscription struct {
	kind     *kinds.Kind
	required bool // nothing is delivered until it is answered
	answered bool
	optional bool // given up if it is not answered in time
}

func newSession(c *Client, at *server, w wire, apply func(kinds.Batch) error) *session {
	c.state.discard() // the unfinished batch of the previous stream
	return &session{
		client: c, at: at, wire: w, state: c.state, apply: apply, outbox: newOutbox(),
		subscriptions: map[string]*subscription{}, accepted: map[string]string{}, reordered: map[uint64]*response{},
	}
}

// run sends and receives in goroutines of their own and waits for both. At most one response waits
// while another is processed; gRPC's flow control holds back the rest.
func (s *session) run(ctx context.Context, cancel context.CancelFunc) error {
	responses, failed, sent := make(chan *response), make(chan error, 1), make(chan struct{})
	go func() {
		defer close(sent)
		s.sendAll(ctx)
	}()
	go s.receiveAll(ctx, responses, failed)
	defer func() {
		cancel()
		<-sent
		for range responses { // until the receiver closes the channel
		}
	}()
	if err := s.subscribe(); err != nil {
		return err
	}
	s.answerTimer, s.holdTimer = time.NewTimer(s.client.cfg.AnswerTimeout), time.NewTimer(0)
	defer s.answerTimer.Stop()
	defer s.holdTimer.Stop()
	s.awaitRelease()
	return s.follow(ctx, responses, failed)
}

func (s *session) follow(ctx context.Context, responses <-chan *response, failed <-chan error) error {
	for {
		var err error
		select {
		case r, open := <-responses:
			if !open {
				return <-failed
			}
			err = s.handle(r)
			if s.unanswered > 0 && len(s.reordered) == 0 { // it is busy sending, so it is not silent
				s.answerTimer.Reset(s.client.cfg.AnswerTimeout)
			}
		case <-s.answerTimer.C:
			err = s.answerTimeout()
		case <-s.optionalDeadline():
			err = s.deliverWithoutOptional()
		case <-s.holdTimer.C:
			err = s.deliver(s.client.lastEnd, time.Time{})
		case <-ctx.Done():
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
	}
}

func (s *session) receiveAll(ctx context.Context, responses chan<- *response, failed chan<- error) {
	defer close(responses) // after the reason is in failed, where follow looks for it
	err := panics.Forward(ctx, s.wire.recv, responses)
	if errors.Is(err, io.EOF) {
		err = errors.New("the server ended the stream")
	}
	failed <- err
}

// sendAll keeps emptying the outbox when the stream is broken: recv returns the reason, after all
// that was received before it.
func (s *session) sendAll(ctx context.Context) {
	broken := false
	for {
		select {
		case <-s.outbox.ready:
			for _, r := range s.outbox.take() {
				broken = broken || s.wire.send(r) != nil
			}
		case <-ctx.Done():
			return
		}
	}
}

// handle processes one response, and later ones that waited for it.
func (s *session) handle(r *response) error {
	if !s.responded {
		s.responded, s.pgmesh = true, strings.HasPrefix(r.server, mcpv1.Identifier) && s.wire.protocol() != Legacy
		if err := s.at.choice.checkServer(s.pgmesh); err != nil {
			return err
		}
		s.batching = s.pgmesh
		s.client.connected(s.at, s.wire.protocol(), r.server)
	}
	if !s.pgmesh && len(s.reordered) == 0 {
		return s.process(r)
	}
	return s.handleInOrder(r)
}

// process processes one response in its turn, and answers it.
func (s *session) process(r *response) error {
	defer r.release()
	switch r.typeURL {
	case mcpv1.BatchTypeURL:
		return s.endOfBatch(r)
	case mcpv1.StandingTypeURL:
		return s.standing(r)
	}
	q := s.subscriptions[r.typeURL]
	if q == nil {
		return s.answer(r, s.unrequested(r))
	}
	undecodable := s.merge(q.kind, r)
	if err := s.markAnswered(q); err != nil {
		return err
	}
	if err := s.deliverUnmarked(); err != nil {
		return err
	}
	return s.answer(r, undecodable)
}

// unrequested returns how to answer a response that nobody asked for. Over xDS it is acknowledged,
// so as not to hold up the server. A legacy source expects a refusal.
func (s *session) unrequested(r *response) *refusal {
	if s.wire.protocol() == Legacy {
		return refuse(codes.Unimplemented, errors.New("unsupported collection "+strconv.Quote(r.typeURL)))
	}
	return nil
}

// answer acknowledges or refuses a response.
func (s *session) answer(r *response, refused *refusal) error {
	req := &request{node: s.client.node, typeURL: r.typeURL, nonce: r.nonce}
	if refused != nil {
		s.client.cfg.Log.Error("the server sent what this program cannot take; the last good state of it stays in force",
			"server", s.at.target, "type", r.typeURL, "error", refused)
		req.failure = refused.status()
	} else {
		s.accepted[r.typeURL] = r.version
	}
	req.version = s.accepted[r.typeURL]
	if !req.answers() {
		return nil // without a nonce it would count as a new request for everything
	}
	return s.outbox.put(req)
}
