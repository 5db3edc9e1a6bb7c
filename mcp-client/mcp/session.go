package mcp

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/anypb"
	mcpapi "istio.io/api/mcp/v1alpha1"

	"github.com/pgmesh/pgmesh/kinds"
	mcpv1 "github.com/pgmesh/pgmesh/proto/pgmesh/mcp/v1"
)

// session is one stream: what is asked for, what has been answered, and what is gathered until a batch is whole.
type session struct {
	client *Client
	wire   wire
	apply  func(Batch) error
	outbox chan *request

	heard, delivered bool

	batching bool                 // the server says where batches end
	silent   map[*kinds.Kind]bool // waited for: asked for, and not answered yet
	gathered *pending
	accepted map[string]string // the version of the last response that was accepted, by type URL
}

func newSession(c *Client, w wire, apply func(Batch) error) *session {
	s := &session{
		client: c, wire: w, apply: apply, silent: map[*kinds.Kind]bool{}, gathered: newPending(c.state),
		accepted: map[string]string{},
		// Room for the first requests and one answer a type, which is all that the protocol lets a server expect.
		outbox: make(chan *request, 2*len(c.cfg.Kinds)+4),
	}
	for _, k := range c.cfg.Kinds {
		if !k.Bare { // Nacos never answers for these, and istiod does not wait for them either
			s.silent[k] = true
		}
	}
	return s
}

// run sends from a goroutine of its own, since a server may not read on before its answers are read.
func (s *session) run(ctx context.Context, cancel context.CancelFunc) error {
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		s.sendAll(ctx)
	}()
	defer func() { cancel(); <-sent }()
	s.subscribe()
	for {
		r, err := s.wire.recv()
		if errors.Is(err, io.EOF) {
			return errors.New("the server ended the stream")
		}
		if err != nil {
			return err
		}
		if err := s.handle(ctx, r); err != nil {
			return err
		}
	}
}

// sendAll goes on emptying the outbox when the stream is broken, since answers may still be put there: the reason comes out
// of recv, after what was received before it.
func (s *session) sendAll(ctx context.Context) {
	broken := false
	for {
		select {
		case r := <-s.outbox:
			broken = broken || s.wire.send(r) != nil
		case <-ctx.Done():
			return
		}
	}
}

// subscribe asks for every kind, and for what only a pgmesh server knows: its standing, and the ends of batches.
func (s *session) subscribe() {
	for i, k := range s.client.cfg.Kinds {
		r := &request{typeURL: k.TypeURL(), held: s.client.state.held(k)}
		if i == 0 {
			r.node = s.client.node
		}
		s.outbox <- r
	}
	s.outbox <- &request{typeURL: mcpv1.StandingTypeURL}
	s.outbox <- &request{typeURL: mcpv1.BatchTypeURL}
}

func (s *session) handle(ctx context.Context, r *response) error {
	if !s.heard {
		s.heard, s.batching = true, strings.HasPrefix(r.server, mcpv1.Identifier)
		s.client.connected()
	}
	switch r.typeURL {
	case mcpv1.BatchTypeURL:
		return s.endOfBatch(ctx, r)
	case mcpv1.StandingTypeURL:
		return s.standing(ctx, r)
	}
	kind, known := kinds.ByTypeURL(r.typeURL)
	if !known || !slices.Contains(s.client.cfg.Kinds, kind) {
		return s.answer(ctx, r, nil) // not asked for: no reason to hold the server up
	}
	delete(s.silent, kind)
	undecodable := s.gather(kind, r)
	if err := s.deliverUnmarked(); err != nil {
		return err
	}
	return s.answer(ctx, r, undecodable)
}

// deliverUnmarked delivers what a server sent that does not say where batches end: all of it once every kind was answered,
// and then each response by itself.
func (s *session) deliverUnmarked() error {
	if s.batching || len(s.silent) > 0 {
		return nil
	}
	return s.deliver(mark{})
}

// gather takes in one response, and returns what is wrong with the resources that cannot be decoded. The others count, and
// of those the last good state stays.
func (s *session) gather(kind *kinds.Kind, r *response) (undecodable []error) {
	absent := map[string]bool{}
	if r.full {
		absent = s.gathered.names(kind)
	}
	for _, it := range r.resources {
		name, value := it.identity()
		res, err := kinds.FromAny(kind, name, it.body)
		if err != nil {
			undecodable = append(undecodable, err)
			delete(absent, name)
			if name == "" {
				clear(absent) // it could be any of these
			}
			continue
		}
		if name == "" {
			name = res.Key().FullName()
		}
		delete(absent, name)
		if had, ok := s.gathered.version(kind, name); !ok || had.value != value {
			s.gathered.put(kind, name, value, res, s.kept(it.body))
		}
	}
	for name := range absent {
		s.gathered.remove(kind, name)
	}
	for _, name := range r.removed {
		s.gathered.remove(kind, name)
	}
	return undecodable
}

// kept is a body that the client's user wants to have.
func (s *session) kept(body *anypb.Any) *anypb.Any {
	if s.client.cfg.Bodies {
		return body
	}
	return nil
}

// identity is the name and version that the server gave, in the response or in the envelope. A server that gives no version is
// helped out with one made from the content.
func (it *item) identity() (name, version string) {
	name, version = it.name, it.version
	envelope := &mcpapi.Resource{}
	if (name == "" || version == "") && it.body.MessageIs(envelope) && it.body.UnmarshalTo(envelope) == nil {
		name = cmp.Or(name, envelope.GetMetadata().GetName())
		version = cmp.Or(version, envelope.GetMetadata().GetVersion())
	}
	if version == "" {
		sum := sha256.Sum256(it.body.GetValue())
		version = hex.EncodeToString(sum[:16])
	}
	return name, version
}

// endOfBatch delivers what was gathered as one, under the revision that the server names.
func (s *session) endOfBatch(ctx context.Context, r *response) error {
	if len(r.resources) == 0 { // as a server answers that knows nothing of batches, whatever it calls itself
		s.batching = false
		if err := s.deliverUnmarked(); err != nil {
			return err
		}
		return s.answer(ctx, r, nil)
	}
	end := &mcpv1.Batch{}
	if err := r.resources[0].body.UnmarshalTo(end); err != nil {
		return s.answer(ctx, r, []error{fmt.Errorf("decode the end of a batch: %w", err)})
	}
	if err := s.deliver(mark{end.GetRevision(), r.resources[0].version}); err != nil {
		return err
	}
	return s.answer(ctx, r, nil)
}

// mark is the end of a batch: the zero one if the server sends none.
type mark struct {
	revision int64
	version  string
}

func (s *session) deliver(end mark) error {
	batch := s.gathered.batch(end)
	status := s.client.Status()
	if len(batch.Changes) > 0 || !status.Synced || end.revision != status.Revision {
		if err := s.apply(batch); err != nil {
			return &applyError{err}
		}
	}
	s.gathered.settle()
	s.gathered = newPending(s.client.state)
	s.client.delivered(end.revision)
	s.delivered = true
	return nil
}

// answer acknowledges a response, or refuses it for the resources that could not be decoded.
func (s *session) answer(ctx context.Context, r *response, undecodable []error) error {
	req := &request{node: s.client.node, typeURL: r.typeURL, nonce: r.nonce}
	if len(undecodable) > 0 {
		reason := errors.Join(undecodable...)
		s.client.cfg.Log.Error("the server sent what this program cannot decode; the last good state of it stays in force",
			"type", r.typeURL, "error", reason)
		req.failure = &status.Status{Code: int32(codes.InvalidArgument), Message: reason.Error()}
	} else {
		s.accepted[r.typeURL] = r.version
	}
	req.version = s.accepted[r.typeURL]
	select {
	case s.outbox <- req:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
