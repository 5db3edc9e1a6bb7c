// Package membership is how a program belongs to a mesh: the certificate that says who it is, the key of it, and whom it trusts. All three
// are kept in a folder, so that a program that is started again is who it was; the certificate is renewed long before it ends; and what is
// new counts for every connection that begins after it, without a restart.
//
// A program becomes a member with [Join], is one again with [Open], and stays one while [Membership.Run] runs.
package membership

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spiffe/go-spiffe/v2/spiffeid"

	"github.com/pgmesh/pgmesh/internal/authority"
	identityv1 "github.com/pgmesh/pgmesh/proto/pgmesh/identity/v1"
)

// Options say where a membership is kept and who hears of it.
type Options struct {
	// Folder is the program's own. Without one everything is in memory, for a program that can give itself a new certificate.
	Folder string
	// Is tells what is wrong with an identity that is not for this program. Nil takes any.
	Is func(spiffeid.ID) error
	// Spread is within what time the certificate is renewed when the root changes, so that many do not come at once. Half a minute if it is 0.
	Spread time.Duration
	Log    *slog.Logger
	// Metrics are registered here, unless it is nil: one membership a registry.
	Metrics prometheus.Registerer
}

// Ask gets a certificate for a request, PKCS #10 in PEM, from who gives them out.
type Ask func(ctx context.Context, csr []byte) (Granted, error)

// Granted is what Ask got.
type Granted struct {
	Chain []byte            // the certificate, and those between it and the root, PEM
	Trust *identityv1.Trust // nil where nothing was said: then what was trusted is trusted on
}

// Membership is a program's identity and trust as they are now.
type Membership struct {
	options Options
	folder  folder
	metrics *metrics

	mu      sync.Mutex // held while something is replaced
	current atomic.Pointer[State]
}

// Errors of who is no member, or none any more.
var (
	ErrNone      = errors.New("there is no certificate yet")
	ErrExpired   = errors.New("the certificate has expired")
	ErrOtherMesh = errors.New("the certificate is of another mesh")
)

// Open makes a program the member that it was. The error is ErrNone if it was none yet.
func Open(o Options) (*Membership, error) {
	m, err := open(o)
	if err != nil {
		return nil, err
	}
	s, err := m.read()
	if err != nil {
		return nil, err
	}
	m.begin(s)
	return m, nil
}

// Join makes a program a member, whatever it was before. The key is kept before it is asked for, and used again by the next attempt: so a
// join token that was used up by an attempt whose answer got lost still counts for it.
func Join(ctx context.Context, o Options, ask Ask) (*Membership, error) {
	m, err := open(o)
	if err != nil {
		return nil, err
	}
	key, err := m.folder.joiningKey()
	if err != nil {
		return nil, err
	}
	s, err := m.ask(ctx, key, nil, ask)
	if err != nil {
		return nil, err
	}
	if err := m.folder.write(s); err != nil {
		return nil, err
	}
	m.folder.forgetJoiningKey()
	m.begin(s)
	return m, nil
}

// begin is for the first state. Before, there is nothing to count: who cannot be opened may join, and be tried again.
func (m *Membership) begin(s *State) {
	m.metrics = newMetrics(m.options.Metrics)
	m.replace(s)
}

func open(o Options) (*Membership, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	m := &Membership{options: o, folder: folder(o.Folder)}
	return m, m.folder.prepare()
}

// Current is who the program is and whom it trusts at this moment.
func (m *Membership) Current() *State { return m.current.Load() }

// Learn takes over what the mesh trusts now. What does not fit the mesh that the program is of changes nothing.
func (m *Membership) Learn(trust *identityv1.Trust) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.Current()
	if s.Trust.says(trust) {
		return nil
	}
	learnt, err := ParseTrust(trust)
	if err != nil {
		return err
	}
	if learnt.Domain != s.Trust.Domain && !learnt.shares(s.Trust) {
		return fmt.Errorf("%w: this is a member of %s, and was told to trust %s, which has none of its roots", ErrOtherMesh, s.Trust.Domain, learnt.Domain)
	}
	for _, err := range learnt.Unusable {
		m.options.Log.Error("another mesh cannot be trusted as it is given", "error", err)
	}
	next := s.with(learnt)
	if err := m.folder.writeTrust(learnt); err != nil {
		m.options.Log.Error("what the mesh trusts counts, and could not be kept for the next start", "error", err)
	}
	m.replace(next)
	return nil
}

// ask gets a certificate for a key and checks that it is one that others will accept.
func (m *Membership) ask(ctx context.Context, key crypto.Signer, before *State, ask Ask) (*State, error) {
	csr, err := authority.NewRequest(key)
	if err != nil {
		return nil, err
	}
	granted, err := ask(ctx, csr)
	if err != nil {
		return nil, err
	}
	var trust *Trust
	switch {
	case granted.Trust != nil:
		if trust, err = ParseTrust(granted.Trust); err != nil {
			return nil, err
		}
	case before != nil:
		trust = before.Trust
	default:
		return nil, errors.New("a certificate was given, and nothing to trust with it")
	}
	s, err := newState(granted.Chain, key, trust, m.options.Is)
	if err != nil {
		return nil, fmt.Errorf("the certificate that was given cannot be used: %w", err)
	}
	if before != nil && s.ID.Path() != before.ID.Path() {
		return nil, fmt.Errorf("the certificate that was given cannot be used: it is for %s, and this is %s", s.ID, before.ID)
	}
	return s, nil
}

// read makes a state of what is in the folder.
func (m *Membership) read() (*State, error) {
	chain, key, trust, err := m.folder.read()
	if err != nil {
		return nil, err
	}
	s, err := newState(chain, key, trust, m.options.Is)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.folder, err)
	}
	return s, nil
}

// replace makes a state the one that counts, and tells who waits for that.
func (m *Membership) replace(s *State) {
	before := m.current.Swap(s)
	m.metrics.notAfter(s.NotAfter())
	if before != nil {
		close(before.replaced)
	}
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
