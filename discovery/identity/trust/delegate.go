package trust

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/identity/authority"
	"github.com/pgmesh/pgmesh/internal/rpc"
	identityv1 "github.com/pgmesh/pgmesh/proto/pgmesh/identity/v1"
)

// delegated is the authority that mcp-server gave discovery, beneath the mesh's root.
type delegated struct {
	authority *authority.Authority // nil before the first
	renewAt   time.Time            // about half of its life
	err       error                // why there is none, or no newer one
}

// ErrNoAuthority says that discovery cannot sign certificates.
var ErrNoAuthority = errors.New("it has no authority to sign with")

// Authority returns what discovery signs with, or why it cannot.
func (k *Keeper) Authority() (*authority.Authority, error) {
	a, state, err := k.held()
	switch {
	case a == nil && err != nil:
		return nil, fmt.Errorf("%w: mcp-server gives none: %s", ErrNoAuthority, status.Convert(err).Message())
	case a == nil && k.options.Own == nil && k.options.Server == nil:
		return nil, fmt.Errorf("%w: give it one with --ca-cert and --ca-key, or an mcp-server", ErrNoAuthority)
	case a == nil:
		return nil, fmt.Errorf("%w: it waits for mcp-server", ErrNoAuthority)
	case time.Now().After(a.NotAfter()):
		return nil, fmt.Errorf("%w: the one that it had has ended at %s", ErrNoAuthority, a.NotAfter().UTC().Format(time.RFC3339))
	case state == nil:
		return nil, fmt.Errorf("%w: it does not know yet what the mesh trusts", ErrNoAuthority)
	case !slices.ContainsFunc(state.Roots, a.Root().Equal):
		return nil, fmt.Errorf("%w that the mesh trusts: it leads to the root %s, which is none of the mesh's", ErrNoAuthority, a.Root().Subject)
	}
	return a, nil
}

func (k *Keeper) held() (*authority.Authority, *State, error) {
	if k.options.Own != nil {
		return k.options.Own(), k.State(), nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.delegate.authority, k.state, k.delegate.err
}

// keepAuthority asks for an authority, and for the next at half of its life, or at once if it does
// not lead to the root that signs now.
func (k *Keeper) keepAuthority(ctx context.Context) error {
	backoff := pauses.Backoff()
	for {
		state, changed := k.Watch()
		wait := time.Until(k.due(state))
		if state == nil {
			wait = pauses.Longest // or until what the mesh trusts changes
		} else if wait <= 0 {
			if k.renew(ctx, state) {
				backoff.Reset()
				continue
			}
			wait = backoff.Next()
			changed = nil // a failed request is not repeated sooner because of it
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-changed:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
		timer.Stop()
	}
}

// due is when discovery needs another authority.
func (k *Keeper) due(state *State) time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.delegate.authority == nil || state == nil || outdated(k.delegate.authority, state) {
		return time.Time{}
	}
	return k.delegate.renewAt
}

// outdated reports whether new authorities lead to another root.
func outdated(a *authority.Authority, state *State) bool {
	active := state.Message().GetActiveRoot()
	pin := sha256.Sum256(a.Root().RawSubjectPublicKeyInfo)
	return len(active) > 0 && !bytes.Equal(active, pin[:])
}

// renewWithin bounds an attempt.
const renewWithin = 30 * time.Second

// renew asks for an authority, and reports whether it got one that is of use.
func (k *Keeper) renew(ctx context.Context, state *State) bool {
	ctx, cancel := context.WithTimeout(ctx, renewWithin)
	defer cancel()
	a, err := k.ask(ctx, state)
	if err == nil {
		k.take(a)
		k.log.Info("discovery has an authority of its own to sign machines' certificates with", "root", a.Root().Subject.String(), "until", a.NotAfter())
		if err := k.writeAuthority(a); err != nil {
			k.log.Error("the authority counts, and could not be kept for the next start", "error", err)
		}
		if !outdated(a, state) {
			return true
		}
		err = errors.New("mcp-server still signs with a root that is to be replaced")
	}
	k.mu.Lock()
	before := k.delegate.err
	k.delegate.err = err
	has := k.delegate.authority != nil
	k.mu.Unlock()
	if ctx.Err() == nil && (before == nil || before.Error() != err.Error()) {
		k.log.Warn("mcp-server gives discovery no new authority to sign with; it is asked again", "error", err, "signs_with_the_one_before", has)
	}
	return false
}

// ask has mcp-server certify a new key as an authority's.
func (k *Keeper) ask(ctx context.Context, state *State) (*authority.Authority, error) {
	key, err := authority.NewKey()
	if err != nil {
		return nil, err
	}
	csr, err := authority.NewRequest(key)
	if err != nil {
		return nil, err
	}
	answer, err := rpc.Again(func() (*identityv1.DelegateResponse, error) {
		return identityv1.NewAuthorityServiceClient(k.options.Server).Delegate(ctx, &identityv1.DelegateRequest{Csr: csr})
	})
	if err != nil {
		return nil, err
	}
	text, err := authority.EncodeKey(key)
	if err != nil {
		return nil, err
	}
	return authority.Load(answer.GetChain(), text, authority.EncodeCertificates(state.Roots...))
}

// take makes an authority the one that signs.
func (k *Keeper) take(a *authority.Authority) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.delegate = delegated{authority: a, renewAt: halfLife(a.Certificate())}
}

// halfLife is about the middle of a certificate's life. It varies a little, so that many are not
// renewed together.
func halfLife(c *x509.Certificate) time.Time {
	const jitter = 0.05
	life := c.NotAfter.Sub(c.NotBefore)
	return c.NotBefore.Add(time.Duration((0.5 + jitter*(2*rand.Float64()-1)) * float64(life)))
}
