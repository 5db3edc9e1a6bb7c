package authority

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"time"

	"github.com/pgmesh/pgmesh/identity"
	signing "github.com/pgmesh/pgmesh/identity/authority"
	"github.com/pgmesh/pgmesh/identity/membership"
	"github.com/pgmesh/pgmesh/store/identity/members"
)

// ownLifetime is the lifetime of this server's own certificate, which it signs itself and keeps in
// memory only.
const ownLifetime = 24 * time.Hour

// own is this server's certificate, and the trust that comes with it.
type own struct {
	*membership.Membership

	signer *signing.Authority
	domain string
}

// until returns when to renew: at half the lifetime.
func (o *own) until() time.Time {
	leaf := o.Current().Certificate.Leaf
	return leaf.NotBefore.Add(leaf.NotAfter.Sub(leaf.NotBefore) / 2)
}

// identify gives this server a certificate if it has none or one is due, and passes on the trust.
func (a *Authority) identify(ctx context.Context, state *State) error {
	switch {
	case !a.cfg.Signs:
		return nil
	case state.signer == nil:
		return errors.New("none of the authorities of the mesh signs")
	}
	if o := a.own.Load(); o != nil && o.domain == state.trust.GetTrustDomain() && o.signer.Certificate().Equal(state.signer.Certificate()) && time.Now().Before(o.until()) {
		return o.Learn(state.trust)
	}
	var given signing.Issued
	m, err := membership.Join(ctx, membership.Options{Log: a.cfg.Log}, func(_ context.Context, request []byte) (granted membership.Granted, err error) {
		given, err = a.signOwn(state, request)
		return membership.Granted{Chain: given.ChainPEM, Trust: state.trust}, err
	})
	if err != nil {
		return fmt.Errorf("give this server a certificate: %w", err)
	}
	a.metrics.identified(given.Certificate)
	a.own.Store(&own{m, state.signer, state.trust.GetTrustDomain()})
	a.cfg.Log.Info("this server has a new certificate", "identity", m.Current().ID, "until", given.Certificate.NotAfter.UTC().Format(time.RFC3339))
	if err := a.cfg.Members.RecordIssues(ctx, a.Identity(), []members.Issue{issueOf(given.Certificate, state.signer, "")}); err != nil {
		a.cfg.Log.Warn("cannot record this server's own certificate", "error", err)
	}
	return nil
}

// signOwn signs this server's own certificate.
func (a *Authority) signOwn(state *State, request []byte) (signing.Issued, error) {
	csr, err := signing.ParseRequest(request)
	if err != nil {
		return signing.Issued{}, err
	}
	id, err := identity.Server{TrustDomain: state.trust.GetTrustDomain(), Program: identity.MCPServer, Name: a.cfg.Name}.ID()
	if err != nil {
		return signing.Issued{}, fmt.Errorf("--name %s: %w", a.cfg.Name, err)
	}
	return state.signer.Sign(signing.Request{CSR: csr, ID: id, Hosts: a.cfg.Hosts, Lifetime: ownLifetime})
}

// renew renews this server's own certificate until the context ends.
func (a *Authority) renew(ctx context.Context) error {
	select {
	case <-a.ready:
	case <-ctx.Done():
		return ctx.Err()
	}
	for {
		pause := max(time.Until(a.own.Load().until()), time.Second)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
		a.mu.Lock()
		err := a.identify(ctx, a.Current())
		a.mu.Unlock()
		if err != nil {
			a.logOnce(err)
		}
	}
}

// Identity returns this server's identity; before it has a certificate, its program and name.
func (a *Authority) Identity() string {
	if own := a.own.Load(); own != nil {
		return own.Current().ID.String()
	}
	return string(identity.MCPServer) + "/" + a.cfg.Name
}

// certificateTimeout is how long a connection waits for a server that has just started to get its
// certificate.
const certificateTimeout = 10 * time.Second

// TLS returns the configuration of a listener, where clients may show a certificate of the mesh.
// Connections that come before the first state wait for it.
func (a *Authority) TLS(protocols ...string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: protocols,
		GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			ctx, cancel := context.WithTimeout(hello.Context(), certificateTimeout)
			defer cancel()
			select {
			case <-a.ready:
				return a.own.Load().Server(tls.VerifyClientCertIfGiven, protocols...).GetConfigForClient(hello)
			case <-ctx.Done():
				return nil, fmt.Errorf("this server has no certificate yet: %w", ctx.Err())
			}
		},
	}
}
