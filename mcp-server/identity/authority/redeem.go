package authority

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/identity/refusal"
	"github.com/pgmesh/pgmesh/internal/caller"
	"github.com/pgmesh/pgmesh/internal/kit/panics"
	identityv1 "github.com/pgmesh/pgmesh/proto/pgmesh/identity/v1"
	"github.com/pgmesh/pgmesh/store/identity/members"
)

const (
	hashSize = 32
	// maxBatch is the most tokens that are redeemed in one transaction.
	maxBatch = 256
	// maxWaiting bounds the queue: at 500 a second, which the database does easily, it is a few
	// seconds long.
	maxWaiting = 4096
	// maxIssues is the most rows that one call may record.
	maxIssues = 2000
)

// Redeem uses up a machine's join token.
func (s *Service) Redeem(ctx context.Context, req *identityv1.RedeemRequest) (*identityv1.RedeemResponse, error) {
	who := caller.From(ctx)
	grant, err := s.redeem(ctx, who.Identity(), req)
	err = s.statusOf(err)
	s.metrics.called("redeem", err)
	if err != nil {
		return nil, err
	}
	return &identityv1.RedeemResponse{Grant: grant}, nil
}

func (s *Service) redeem(ctx context.Context, server string, req *identityv1.RedeemRequest) (*identityv1.Grant, error) {
	if len(req.GetTokenHash()) != hashSize || len(req.GetKeyHash()) != hashSize {
		return nil, refusal.New(identityv1.Refusal_REFUSAL_REQUEST, "a token and a key are named by their SHA-256, which has %d bytes", hashSize)
	}
	joined, err := s.redemptions.redeemOne(ctx, server, members.Joining{TokenHash: req.GetTokenHash(), KeyHash: req.GetKeyHash(), Peer: req.GetPeer()})
	if err != nil {
		return nil, err
	}
	if joined.Refusal != "" {
		return nil, refusal.NewFor(joined.Namespace, joined.ServiceAccount, refusal.Parse(joined.Refusal), "%s", joined.Detail)
	}
	return &identityv1.Grant{
		Namespace: joined.Namespace, ServiceAccount: joined.ServiceAccount, WorkloadGroup: joined.WorkloadGroup, Enrolment: joined.Enrolment,
	}, nil
}

// redemptionQueue gathers redemptions that arrive while a transaction is under way into the next
// one. So however many arrive, there is one transaction at a time.
type redemptionQueue struct {
	members *members.Store

	mu      sync.Mutex
	waiting []*redemption
	busy    bool       // a goroutine redeems batches
	idle    *sync.Cond // signalled when busy becomes false
}

type redemption struct {
	server  string // through which the token came
	joining members.Joining
	answer  members.Joined
	err     error
	done    chan struct{} // closed once it has an answer or an error
}

func newRedemptionQueue(s *members.Store) *redemptionQueue {
	r := &redemptionQueue{members: s}
	r.idle = sync.NewCond(&r.mu)
	return r
}

// redeemOne queues one token and waits for the answer.
func (r *redemptionQueue) redeemOne(ctx context.Context, server string, j members.Joining) (members.Joined, error) {
	own := &redemption{server: server, joining: j, done: make(chan struct{})}
	if err := r.add(own); err != nil {
		return members.Joined{}, err
	}
	select {
	case <-own.done:
		return own.answer, own.err
	case <-ctx.Done():
		return members.Joined{}, ctx.Err() // the same key may redeem it again
	}
}

func (r *redemptionQueue) add(own *redemption) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.waiting) >= maxWaiting {
		return refusal.New(identityv1.Refusal_REFUSAL_UNAVAILABLE, "%d machines wait to join already: come again", maxWaiting)
	}
	r.waiting = append(r.waiting, own)
	if !r.busy {
		r.busy = true
		go r.work()
	}
	return nil
}

// work redeems batches until the queue is empty.
func (r *redemptionQueue) work() {
	for {
		batch := r.next()
		if len(batch) == 0 {
			return
		}
		r.redeem(batch)
	}
}

// next takes the first batch out of the queue. All of a batch came through one server.
func (r *redemptionQueue) next() (batch []*redemption) {
	r.mu.Lock()
	defer r.mu.Unlock()
	rest := r.waiting[:0:0]
	for _, each := range r.waiting {
		if len(batch) < maxBatch && (len(batch) == 0 || each.server == batch[0].server) {
			batch = append(batch, each)
		} else {
			rest = append(rest, each)
		}
	}
	r.waiting, r.busy = rest, len(batch) > 0
	if !r.busy {
		r.idle.Broadcast()
	}
	return batch
}

func (r *redemptionQueue) redeem(batch []*redemption) {
	joining := make([]members.Joining, len(batch))
	for i, each := range batch {
		joining[i] = each.joining
	}
	answers, err := panics.Receive(func() ([]members.Joined, error) {
		return r.members.RedeemMachines(context.Background(), batch[0].server, joining) // bounded by the store's own timeouts
	})
	if err == nil && len(answers) != len(batch) {
		err = fmt.Errorf("redeeming join tokens: %d answers came for %d", len(answers), len(batch))
	}
	for i, each := range batch {
		if each.err = err; err == nil {
			each.answer = answers[i]
		}
		close(each.done)
	}
}

// wait waits until the queue is idle.
func (r *redemptionQueue) wait() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.busy {
		r.idle.Wait()
	}
}

// Record records the certificates that a discovery signed, and the requests that it refused.
func (s *Service) Record(ctx context.Context, req *identityv1.RecordRequest) (*identityv1.RecordResponse, error) {
	who := caller.From(ctx)
	issues, err := issuesOf(req.GetIssues())
	if err == nil && len(issues) > 0 {
		err = s.statusOf(s.cfg.Members.RecordIssues(ctx, who.Identity(), issues))
	}
	s.metrics.called("record", err)
	if err != nil {
		return nil, err
	}
	return &identityv1.RecordResponse{}, nil
}

func issuesOf(sent []*identityv1.Issue) ([]members.Issue, error) {
	if len(sent) > maxIssues {
		return nil, status.Errorf(codes.InvalidArgument, "there are %d issues, and %d may be recorded at once", len(sent), maxIssues)
	}
	issues := make([]members.Issue, len(sent))
	for i, t := range sent {
		if err := checkIssue(t); err != nil {
			return nil, status.Errorf(codes.InvalidArgument, "issue %d: %v", i, err)
		}
		issues[i] = members.Issue{
			ID: [16]byte(t.GetId()), At: t.GetAt().AsTime(), Refusal: refusal.Word(t.GetRefusal()), Detail: t.GetDetail(), Identity: t.GetIdentity(), Enrolment: t.GetEnrolment(),
			Serial: t.GetSerial(), Authority: t.GetAuthority(), Credential: t.GetBy(), Peer: t.GetPeer(), KeyHash: t.GetKeyHash(), Took: t.GetTook().AsDuration(),
		}
		if t.GetNotAfter() != nil {
			issues[i].NotAfter = t.GetNotAfter().AsTime()
		}
	}
	return issues, nil
}

func checkIssue(t *identityv1.Issue) error {
	switch {
	case len(t.GetId()) != len(members.Issue{}.ID):
		return errors.New("its id has to have 16 bytes")
	case t.GetAt().CheckValid() != nil || t.GetAt().AsTime().Before(time.Unix(0, 0)):
		return errors.New("it does not say when it was")
	case t.GetNotAfter() != nil && t.GetNotAfter().CheckValid() != nil:
		return errors.New("when its certificate ends is no time")
	case t.GetTook() != nil && t.GetTook().CheckValid() != nil:
		return errors.New("how long it took is no time")
	case t.GetRefusal() == identityv1.Refusal_REFUSAL_UNSPECIFIED && (t.GetSerial() == "" || t.GetIdentity() == ""):
		return errors.New("a certificate that was given has a serial number and an identity")
	}
	return nil
}
