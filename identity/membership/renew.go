package membership

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/pgmesh/pgmesh/identity/authority"
	"github.com/pgmesh/pgmesh/internal/kit/retry"
)

const (
	// jitter is how far, as a share of its lifetime, a certificate's renewal may be from half of
	// its life. It separates members that joined together.
	jitter = 0.1

	// spread is the default of Options.Spread. A twentieth of a certificate's lifetime applies if
	// that is less.
	spread = 30 * time.Second

	// attemptTimeout bounds one attempt.
	attemptTimeout = 30 * time.Second
)

// Run renews the certificate until ctx ends: at half of its life, and soon after the mesh's active
// root changes. It retries failures, even after the certificate has expired. When a renewal is due
// it first adopts a newer certificate that another process put into the folder.
func (m *Membership) Run(ctx context.Context, ask Ask) error {
	plan := newSchedule(m.Current(), cmp.Or(m.options.Spread, spread))
	for {
		s := m.Current()
		timer := time.NewTimer(time.Until(plan.due(s)))
		select {
		case <-timer.C:
			plan.record(m.Current(), m.renew(ctx, ask))
		case <-m.soon:
			timer.Stop()
			plan.hasten(s)
		case <-s.Replaced():
			timer.Stop()
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}

// RenewSoon has Run renew the certificate before its time, within the spread of its Options, because
// another one would be given now.
func (m *Membership) RenewSoon() {
	select {
	case m.soon <- struct{}{}:
	default: // it is on its way
	}
}

// renew gets a new certificate with a new key.
func (m *Membership) renew(ctx context.Context, ask Ask) error {
	if m.adopt() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	before := m.Current()
	err := m.exchange(ctx, before, ask)
	if ctx.Err() != nil && errors.Is(context.Cause(ctx), context.Canceled) {
		return err // the program is stopping
	}
	m.metrics.renewed(err)
	switch {
	case err == nil:
		m.options.Log.Info("the certificate was renewed", "identity", m.Current().ID, "until", stamp(m.Current().NotAfter()))
	case time.Now().After(before.NotAfter()):
		m.options.Log.Error("the certificate has expired and cannot be renewed: nobody accepts it any more; join again",
			"identity", before.ID, "since", stamp(before.NotAfter()), "error", err)
	default:
		m.options.Log.Warn("the certificate could not be renewed; it is tried again", "identity", before.ID, "until", stamp(before.NotAfter()), "error", err)
	}
	return err
}

func (m *Membership) exchange(ctx context.Context, before *State, ask Ask) error {
	key, err := authority.NewKey()
	if err != nil {
		return err
	}
	s, err := m.ask(ctx, key, before, ask)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !sameCertificate(m.Current().Certificate.Leaf, before.Certificate.Leaf) {
		return nil // Adopt has taken another meanwhile
	}
	if now := m.Current().Trust; now != before.Trust && s.Trust == before.Trust {
		s = s.with(now) // Learn ran meanwhile
	}
	if m.replacedInFolder(before) {
		m.options.Log.Warn("the new certificate is not kept for the next start: somebody has joined again, and that counts then", "identity", s.ID)
	} else if err := m.folder.write(s); err != nil {
		m.options.Log.Error("the new certificate counts, and could not be kept for the next start", "error", err)
	}
	m.replace(s)
	return nil
}

// adopt uses the certificate in the folder if another process has joined again.
func (m *Membership) adopt() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, err := m.read()
	if err != nil || !s.Certificate.Leaf.NotBefore.After(m.Current().Certificate.Leaf.NotBefore) {
		return false
	}
	if s.ID.Path() != m.Current().ID.Path() {
		m.options.Log.Error("somebody joined again as another; start this program anew to be that one", "identity", m.Current().ID, "other", s.ID)
		return false
	}
	m.options.Log.Info("took over a certificate of somebody who joined again", "identity", s.ID, "until", stamp(s.NotAfter()))
	m.replace(s)
	return true
}

// Adopt uses the certificate in the folder at once, because another process has joined again. It is
// ErrOtherID if that is for another identity, which this program cannot become while it runs.
func (m *Membership) Adopt() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, err := m.read()
	switch {
	case err != nil:
		return err
	case s.ID != m.Current().ID:
		return fmt.Errorf("%w: %s, and this program runs as %s", ErrOtherID, s.ID, m.Current().ID)
	case sameCertificate(s.Certificate.Leaf, m.Current().Certificate.Leaf):
		return nil
	}
	m.options.Log.Info("took over a certificate of somebody who joined again", "identity", s.ID, "until", stamp(s.NotAfter()))
	m.replace(s)
	return nil
}

// replacedInFolder reports whether another process has put a certificate into the folder that is not
// older than that of s. The caller holds m.mu.
func (m *Membership) replacedInFolder(s *State) bool {
	found, err := m.read()
	return err == nil && !sameCertificate(found.Certificate.Leaf, s.Certificate.Leaf) && !found.Certificate.Leaf.NotBefore.Before(s.Certificate.Leaf.NotBefore)
}

// schedule plans the next renewal.
type schedule struct {
	serial     string         // of the certificate that the plan is for
	halfLife   time.Time      // half of its life, with jitter
	outdated   time.Time      // when to renew because the root is outdated; zero if it is not
	hastened   time.Time      // when to renew because somebody wants another one; zero if nobody does
	retryAfter time.Time      // the end of the current pause
	backoff    *retry.Backoff // nil if the last attempt succeeded
	spread     time.Duration
}

func newSchedule(s *State, spread time.Duration) *schedule {
	plan := &schedule{spread: spread}
	plan.reset(s)
	return plan
}

// reset plans for another certificate.
func (p *schedule) reset(s *State) {
	leaf := s.Certificate.Leaf
	p.serial = leaf.SerialNumber.String()
	part := 0.5 + jitter*(2*rand.Float64()-1)
	p.halfLife = leaf.NotBefore.Add(time.Duration(part * float64(life(s))))
	p.outdated, p.hastened = time.Time{}, time.Time{}
}

// hasten plans to renew within the spread.
func (p *schedule) hasten(s *State) {
	if p.hastened.IsZero() {
		p.hastened = time.Now().Add(rand.N(min(p.spread, life(s)/20)))
	}
}

func life(s *State) time.Duration {
	return s.Certificate.Leaf.NotAfter.Sub(s.Certificate.Leaf.NotBefore)
}

// due returns when to renew next.
func (p *schedule) due(s *State) time.Time {
	if p.serial != s.Certificate.Leaf.SerialNumber.String() {
		p.reset(s)
	}
	switch {
	case !s.outdated():
		p.outdated = time.Time{}
	case p.outdated.IsZero():
		p.outdated = time.Now().Add(rand.N(min(p.spread, life(s)/20)))
	}
	due := p.halfLife
	if !p.outdated.IsZero() && p.outdated.Before(due) {
		due = p.outdated
	}
	if !p.hastened.IsZero() && p.hastened.Before(due) {
		due = p.hastened
	}
	if due.Before(p.retryAfter) {
		return p.retryAfter
	}
	return due
}

// record notes the outcome of an attempt. A new certificate from the old root counts as a failure:
// the signer has not got the new root yet.
func (p *schedule) record(now *State, err error) {
	if err == nil && !now.outdated() {
		p.backoff, p.retryAfter = nil, time.Time{}
		return
	}
	if p.backoff == nil {
		p.backoff = pauses(life(now)).Backoff()
	}
	p.retryAfter = time.Now().Add(p.backoff.Next())
}

// pauses are those between attempts to renew a certificate. They grow to some minutes, or to a part
// of the certificate's lifetime if that is less.
func pauses(lifetime time.Duration) retry.Pauses {
	return retry.Pauses{First: 750 * time.Millisecond, Longest: min(4*time.Minute, lifetime/27), Growth: 2, Jitter: 1. / 3}
}
