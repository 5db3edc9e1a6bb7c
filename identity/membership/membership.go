// Package membership manages a program's membership in a mesh: its certificate, its key and the
// roots it trusts. It keeps all three in a folder, so that a restarted program has the same
// identity. It renews the certificate long before it ends, and new connections use a new
// certificate or new roots at once, without a restart.
//
// [Join] makes a program a member, [Open] loads an existing membership, and [Membership.Run] keeps
// it valid.
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

	"github.com/spiffe/go-spiffe/v2/spiffeid"

	"github.com/pgmesh/pgmesh/identity/authority"
	identityv1 "github.com/pgmesh/pgmesh/proto/pgmesh/identity/v1"
)

// Options are the settings of a membership.
type Options struct {
	// Folder stores the membership; no other program may use it. If empty, everything is in memory,
	// for a program that can issue itself a new certificate.
	Folder string
	// Is returns an error for an identity that is not for this program. Nil accepts any.
	Is func(spiffeid.ID) error
	// Spread is the time over which members spread their renewals when the root changes, so that
	// they do not all come at once. The default is half a minute.
	Spread  time.Duration
	Log     *slog.Logger
	Metrics Metrics // only one membership may use a registry
}

// Ask sends a certificate request, PKCS #10 in PEM, to an authority.
type Ask func(ctx context.Context, csr []byte) (Granted, error)

// Granted is the answer to Ask.
type Granted struct {
	Chain []byte            // the certificate and the intermediates up to the root, PEM
	Trust *identityv1.Trust // nil: keep the current trust
}

// Membership is a program's current identity and trust.
type Membership struct {
	options Options
	folder  folder
	metrics *metrics

	soon    chan struct{} // somebody wants another certificate
	mu      sync.Mutex    // serializes writers of current; readers need no lock
	current atomic.Pointer[State]
}

// Reasons for not being a member, or no longer.
var (
	ErrNone      = errors.New("there is no certificate yet")
	ErrExpired   = errors.New("the certificate has expired")
	ErrOtherMesh = errors.New("the certificate is of another mesh")
	ErrOtherID   = errors.New("the certificate in the folder is for another identity")
)

// Open loads a membership. It returns ErrNone if the program has not joined yet.
func Open(o Options) (*Membership, error) {
	m := open(o)
	if err := m.folder.check(); err != nil {
		return nil, err
	}
	s, err := m.read()
	if err != nil {
		return nil, err
	}
	m.begin(s)
	return m, nil
}

// Join makes a program a member, whatever it was before. It stores the key before it asks, and a
// retry uses the same key: so a join token still works if an earlier attempt used it up but its
// answer was lost.
func Join(ctx context.Context, o Options, ask Ask) (*Membership, error) {
	m := open(o)
	if err := m.folder.prepare(); err != nil {
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

// begin publishes the first state and registers the metrics. Registering earlier would fail when
// Join follows a failed Open.
func (m *Membership) begin(s *State) {
	m.metrics = newMetrics(m.options.Metrics)
	m.replace(s)
}

func open(o Options) *Membership {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Membership{options: o, folder: folder(o.Folder), soon: make(chan struct{}, 1)}
}

// Current returns the current state.
func (m *Membership) Current() *State { return m.current.Load() }

// Learn replaces what the program trusts. It refuses a trust that belongs to another mesh.
func (m *Membership) Learn(trust *identityv1.Trust) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.Current()
	if s.Trust.equals(trust) {
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

// ask requests a certificate for a key, and checks that others will accept it.
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

// read loads the state in the folder.
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

// replace publishes a state and wakes those who wait on the previous one.
func (m *Membership) replace(s *State) {
	before := m.current.Swap(s)
	m.metrics.notAfter(s.NotAfter())
	if before != nil {
		close(before.replaced)
	}
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
