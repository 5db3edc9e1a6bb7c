package membership

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/pgmesh/pgmesh/internal/authority"
)

const (
	// jitter is how far from half of its life a certificate is renewed, as a part of the life: members that joined together come apart.
	jitter = 0.1

	// spread is within what time members renew when the root changes, unless they say otherwise, or a twentieth of a certificate's life if that is less.
	spread = 30 * time.Second

	// The pauses between attempts that fail grow from the first to the last, or to a twentieth of a certificate's life if that is less.
	firstPause = time.Second
	lastPause  = 5 * time.Minute

	// attempt is how long one may take.
	attempt = 30 * time.Second
)

// Run keeps the certificate new until the context ends: at half of its life, and at once when new ones lead to another root. As long as that
// fails it is tried again, also when the certificate has ended. One that another process has put into the folder is taken over by then.
func (m *Membership) Run(ctx context.Context, ask Ask) error {
	plan := newSchedule(m.Current(), cmp.Or(m.options.Spread, spread))
	for {
		s := m.Current()
		timer := time.NewTimer(time.Until(plan.due(s)))
		select {
		case <-timer.C:
			plan.tried(m.Current(), m.renew(ctx, ask))
		case <-s.Replaced():
			timer.Stop()
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}

// renew gets a new certificate, for a new key.
func (m *Membership) renew(ctx context.Context, ask Ask) error {
	if m.takeOver() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, attempt)
	defer cancel()
	before := m.Current()
	err := m.exchange(ctx, before, ask)
	if ctx.Err() != nil && errors.Is(context.Cause(ctx), context.Canceled) {
		return err // the program ends
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
	if now := m.Current().Trust; now != before.Trust && s.Trust == before.Trust {
		s = s.with(now) // something was learnt meanwhile
	}
	if err := m.folder.write(s); err != nil {
		m.options.Log.Error("the new certificate counts, and could not be kept for the next start", "error", err)
	}
	m.replace(s)
	return nil
}

// takeOver makes what is in the folder count if another process has joined again.
func (m *Membership) takeOver() bool {
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

// schedule says when a certificate is renewed next.
type schedule struct {
	serial   string    // of the certificate that this is about
	half     time.Time // about half of its life
	outdated time.Time // when it is renewed because of its root; zero as long as that is the right one
	notYet   time.Time // not before this, for the last attempt was of no use
	pause    time.Duration
	spread   time.Duration
}

func newSchedule(s *State, spread time.Duration) *schedule {
	plan := &schedule{spread: spread}
	plan.take(s)
	return plan
}

// take begins with another certificate.
func (p *schedule) take(s *State) {
	leaf := s.Certificate.Leaf
	p.serial = leaf.SerialNumber.String()
	part := 0.5 + jitter*(2*rand.Float64()-1)
	p.half = leaf.NotBefore.Add(time.Duration(part * float64(life(s))))
	p.outdated = time.Time{}
}

func life(s *State) time.Duration {
	return s.Certificate.Leaf.NotAfter.Sub(s.Certificate.Leaf.NotBefore)
}

// due is when to try next.
func (p *schedule) due(s *State) time.Time {
	if p.serial != s.Certificate.Leaf.SerialNumber.String() {
		p.take(s)
	}
	switch {
	case !s.outdated():
		p.outdated = time.Time{}
	case p.outdated.IsZero():
		p.outdated = time.Now().Add(rand.N(min(p.spread, life(s)/20)))
	}
	due := p.half
	if !p.outdated.IsZero() && p.outdated.Before(due) {
		due = p.outdated
	}
	if due.Before(p.notYet) {
		return p.notYet
	}
	return due
}

// tried takes the outcome of an attempt. A certificate that leads to the old root again is as little use as none: who signs has not got the new
// one yet.
func (p *schedule) tried(now *State, err error) {
	if err == nil && !now.outdated() {
		p.pause, p.notYet = 0, time.Time{}
		return
	}
	most := max(firstPause, min(lastPause, life(now)/20))
	p.pause = min(most, max(firstPause, 2*p.pause))
	p.notYet = time.Now().Add(p.pause/2 + rand.N(p.pause/2))
}
