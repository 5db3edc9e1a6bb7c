package admit

import (
	"context"
	"sync"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/discovery/identity/trust"
	"github.com/pgmesh/pgmesh/discovery/push"
	"github.com/pgmesh/pgmesh/internal/rpc"
)

// sessions are the open streams.
type sessions struct {
	mu   sync.Mutex
	open map[*session]struct{}
	of   map[string]int // how many a machine has, by its enrolment
}

func newSessions() sessions { return sessions{open: map[*session]struct{}{}, of: map[string]int{}} }

// session is a stream that may stay open only while its client is trusted.
type session struct {
	proxies bool            // the stream serves proxies
	machine string          // the enrolment of its client; "" if that is not known yet
	ctx     context.Context //nolint:containedctx // of the stream: it knows the client
	cancel  context.CancelCauseFunc

	mu     sync.Mutex
	member *trust.Member // nil before it is admitted
	by     *trust.State  // what it was last judged by
}

// Stream is the interceptor for streams. Streams of configuration are for machines; others are for
// all members.
func (d *Door) Stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	s, err := d.enter(stream.Context(), info.FullMethod)
	if err != nil {
		return err
	}
	defer d.sessions.leave(s)
	return rpc.Handle(s.ctx, srv, stream, handle)
}

// enter admits a stream, until its certificate expires.
func (d *Door) enter(ctx context.Context, method string) (*session, error) {
	if c := clientOf(ctx); c.ended() {
		return nil, endedWith(c.member)
	}
	s := &session{proxies: servesProxies(method), machine: enrolmentOf(ctx)}
	s.ctx, s.cancel = context.WithCancelCause(ctx)
	if !d.sessions.enter(s) { // registered before it is judged: Recheck must not miss it
		s.cancel(nil)
		return nil, status.Errorf(codes.ResourceExhausted, "the machine %s has %d streams open, as many as one may have: end some", s.machine, streamsOfMachine)
	}
	m, refusal := d.judge(s)
	if refusal != nil {
		d.sessions.leave(s)
		return nil, d.refuse(ctx, "", refusal)
	}
	expires := time.AfterFunc(time.Until(m.NotAfter), func() { s.end(d.outlived.tell(ctx, m)) })
	context.AfterFunc(s.ctx, func() { expires.Stop() })
	return s, nil
}

// judge decides whether a stream may be open, by what the mesh trusts now. If the authorities are
// unchanged, only revocations matter.
func (d *Door) judge(s *session) (*trust.Member, *push.RefusalError) {
	s.mu.Lock()
	defer s.mu.Unlock()
	state := d.trust()
	if state == nil {
		return nil, errNoTrust
	}
	var err error
	if s.member == nil || !state.SameAuthorities(s.by) {
		s.member, err = judge(s.ctx, state, s.proxies)
	} else {
		err = state.Standing(s.member)
	}
	s.by = state
	return s.member, refusalOf(err)
}

// Machine returns who makes a call, which must be a machine.
func (d *Door) Machine(ctx context.Context) (*trust.Member, error) {
	state := d.trust()
	if state == nil {
		return nil, d.refuse(ctx, "", errNoTrust)
	}
	m, err := Machine(ctx, state)
	if refusal := refusalOf(err); refusal != nil {
		return nil, d.refuse(ctx, "", refusal)
	}
	return m, nil
}

func servesProxies(method string) bool {
	return method == discoveryv3.AggregatedDiscoveryService_StreamAggregatedResources_FullMethodName ||
		method == discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResources_FullMethodName
}

// Recheck ends the streams of clients that would not be admitted any more. Call it when what the
// mesh trusts has changed.
func (d *Door) Recheck() {
	for _, s := range d.sessions.all() {
		if _, refusal := d.judge(s); refusal != nil {
			s.end(d.refuse(s.ctx, "", refusal))
		}
	}
}

func (s *session) end(err error) { rpc.End(s.cancel, err) }

// streamsOfMachine is how many streams one machine may have open: each takes memory to read. An
// agent has a few, and twice as many while it replaces its Envoy.
const streamsOfMachine = 16

// enter registers a stream, unless its machine has as many as it may.
func (x *sessions) enter(s *session) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if s.machine != "" {
		if x.of[s.machine] >= streamsOfMachine {
			return false
		}
		x.of[s.machine]++
	}
	x.open[s] = struct{}{}
	return true
}

func (x *sessions) leave(s *session) {
	s.cancel(nil)
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.open, s)
	if x.of[s.machine]--; x.of[s.machine] <= 0 {
		delete(x.of, s.machine)
	}
}

// enrolmentOf is the enrolment in the client's certificate.
func enrolmentOf(ctx context.Context) string {
	if c := clientOf(ctx); c != nil && c.member != nil {
		return c.member.Enrolment
	}
	return ""
}

func (x *sessions) all() []*session {
	x.mu.Lock()
	defer x.mu.Unlock()
	all := make([]*session, 0, len(x.open))
	for s := range x.open {
		all = append(all, s)
	}
	return all
}
