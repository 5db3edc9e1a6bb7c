package mcp

import (
	"context"
	"errors"
	"io"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/pgmesh/pgmesh/internal/panics"
	"github.com/pgmesh/pgmesh/kinds"
	mcpv1 "github.com/pgmesh/pgmesh/proto/pgmesh/mcp/v1"
)

// session is one stream: what is asked for, what has been answered, and what is gathered until a batch is whole.
type session struct {
	client *Client
	at     *server
	wire   wire
	state  *state
	apply  func(Batch) error
	outbox *outbox

	heard     bool // anything at all
	delivered bool
	pgmesh    bool // the server is one of ours: its versions are hashes of content, its nonces count
	batching  bool // the server says where batches end

	asked    map[string]*question
	silent   int         // questions that are waited for
	patience *time.Timer // with the server's answers
	release  *time.Timer // of what is held
	linger   *time.Timer // with what need not be answered; nil until all else is there
	lingered bool
	accepted map[string]string // the version of the last response that was accepted, by type URL
	turn     uint64            // the nonce of the last response of a pgmesh server that was taken in
	early    map[uint64]*response
	looks    []look // at the resources that are being taken in, whose memory is used again
}

// question is one name that a kind was asked for by on this stream.
type question struct {
	kind     *kinds.Kind
	awaited  bool // nothing is delivered until it is answered
	answered bool
	optional bool // it is given up if it is not answered in time
}

func newSession(c *Client, at *server, w wire, apply func(Batch) error) *session {
	c.state.discard() // what the stream before did not bring to an end
	return &session{
		client: c, at: at, wire: w, state: c.state, apply: apply, outbox: newOutbox(),
		asked: map[string]*question{}, accepted: map[string]string{}, early: map[uint64]*response{},
	}
}

// run receives and sends from goroutines of their own. One response waits at most while another is taken in: what a server
// sends beyond that stays where gRPC holds it back.
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
		for range responses { // until the receiver ends
		}
	}()
	if err := s.subscribe(); err != nil {
		return err
	}
	s.patience, s.release = time.NewTimer(s.client.cfg.Patience), time.NewTimer(0)
	defer s.patience.Stop()
	defer s.release.Stop()
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
			if s.silent > 0 && len(s.early) == 0 { // it is not silent, but has much to say
				s.patience.Reset(s.client.cfg.Patience)
			}
		case <-s.patience.C:
			err = s.impatient()
		case <-s.lingering():
			err = s.goWithout()
		case <-s.release.C:
			err = s.deliver(s.client.last, time.Time{})
		case <-ctx.Done():
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
	}
}

func (s *session) receiveAll(ctx context.Context, responses chan<- *response, failed chan<- error) {
	defer close(responses)
	for {
		r, err := panics.Receive(s.wire.recv)
		if errors.Is(err, io.EOF) {
			err = errors.New("the server ended the stream")
		}
		if err != nil {
			failed <- err
			return
		}
		select {
		case responses <- r:
		case <-ctx.Done():
			failed <- ctx.Err()
			return
		}
	}
}

// sendAll goes on emptying the outbox when the stream is broken: the reason comes out of recv, after what was received before it.
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

// handle takes in one response, and what has waited for it.
func (s *session) handle(r *response) error {
	if !s.heard {
		s.heard, s.pgmesh = true, strings.HasPrefix(r.server, mcpv1.Identifier) && s.wire.protocol() != Legacy
		if err := s.at.choice.judge(s.pgmesh); err != nil {
			return err
		}
		s.batching = s.pgmesh
		s.client.connected(s.at, s.wire.protocol(), r.server)
	}
	if !s.pgmesh && len(s.early) == 0 {
		return s.understand(r)
	}
	return s.inOrder(r)
}

// understand takes in one response in its turn, and answers it.
func (s *session) understand(r *response) error {
	defer r.release()
	switch r.typeURL {
	case mcpv1.BatchTypeURL:
		return s.endOfBatch(r)
	case mcpv1.StandingTypeURL:
		return s.standing(r)
	}
	q := s.asked[r.typeURL]
	if q == nil {
		return s.answer(r, s.unasked(r))
	}
	undecodable := s.gather(q.kind, r)
	if err := s.heardOf(q); err != nil {
		return err
	}
	if err := s.deliverUnmarked(); err != nil {
		return err
	}
	return s.answer(r, undecodable)
}

// unasked is what to say to what nobody asked for. Over xDS it is no reason to hold the server up. A legacy source expects to be
// told.
func (s *session) unasked(r *response) *refusal {
	if s.wire.protocol() == Legacy {
		return refuse(codes.Unimplemented, errors.New("unsupported collection "+strconv.Quote(r.typeURL)))
	}
	return nil
}

// answer acknowledges a response, or refuses it.
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
		return nil // without a nonce it would be a request for everything once more
	}
	return s.outbox.put(req)
}
