package authority

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"time"

	signing "github.com/pgmesh/pgmesh/internal/authority"
	"github.com/pgmesh/pgmesh/internal/identity"
	"github.com/pgmesh/pgmesh/internal/membership"
	"github.com/pgmesh/pgmesh/store"
)

// ownLifetime is that of this server's own certificate, which it gives to itself and keeps in memory.
const ownLifetime = 24 * time.Hour

// own is this server's certificate, and whom it trusts with it.
type own struct {
	*membership.Membership

	signer *signing.Authority
	domain string
}

// until is when it is to be renewed.
func (o *own) until() time.Time {
	leaf := o.Current().Certificate.Leaf
	return leaf.NotBefore.Add(leaf.NotAfter.Sub(leaf.NotBefore) / 2)
}

// identify gives this server a certificate if it has none, or another is due, and tells it what is trusted.
func (a *Authority) identify(ctx context.Context, known *State) error {
	switch {
	case !a.cfg.Signs:
		return nil
	case known.signer == nil:
		return errors.New("none of the authorities of the mesh signs")
	}
	if o := a.own.Load(); o != nil && o.domain == known.trust.GetTrustDomain() && o.signer.Certificate().Equal(known.signer.Certificate()) && time.Now().Before(o.until()) {
		return o.Learn(known.trust)
	}
	var given signing.Issued
	m, err := membership.Join(ctx, membership.Options{Log: a.cfg.Log}, func(_ context.Context, request []byte) (granted membership.Granted, err error) {
		given, err = a.signMyself(known, request)
		return membership.Granted{Chain: given.ChainPEM, Trust: known.trust}, err
	})
	if err != nil {
		return fmt.Errorf("give this server a certificate: %w", err)
	}
	a.metrics.identified(given.Certificate)
	a.own.Store(&own{m, known.signer, known.trust.GetTrustDomain()})
	a.cfg.Log.Info("this server has a new certificate", "identity", m.Current().ID, "until", given.Certificate.NotAfter.UTC().Format(time.RFC3339))
	if err := a.cfg.Store.RecordIssues(ctx, a.Identity(), []store.Issue{issueOf(given.Certificate, known.signer, "")}); err != nil {
		a.cfg.Log.Warn("cannot record this server's own certificate", "error", err)
	}
	return nil
}

// signMyself is how this server comes to its own certificate.
func (a *Authority) signMyself(known *State, request []byte) (signing.Issued, error) {
	csr, err := signing.ParseRequest(request)
	if err != nil {
		return signing.Issued{}, err
	}
	id, err := identity.Server{TrustDomain: known.trust.GetTrustDomain(), Program: identity.MCPServer, Name: a.cfg.Name}.ID()
	if err != nil {
		return signing.Issued{}, fmt.Errorf("--name %s: %w", a.cfg.Name, err)
	}
	return known.signer.Sign(signing.Request{CSR: csr, ID: id, Hosts: a.cfg.Hosts, Lifetime: ownLifetime})
}

// renew keeps this server's own certificate new until the context ends.
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
			a.complain(err)
		}
	}
}

// Identity is who this server is, as far as that is known.
func (a *Authority) Identity() string {
	if own := a.own.Load(); own != nil {
		return own.Current().ID.String()
	}
	return string(identity.MCPServer) + "/" + a.cfg.Name
}

// patience is how long a connection waits for the certificate of a server that has just started.
const patience = 10 * time.Second

// TLS is the configuration of a listener of this server, where clients may show a certificate of the mesh. Connections that come before the
// authority is known wait for it.
func (a *Authority) TLS(protocols ...string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: protocols,
		GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			ctx, cancel := context.WithTimeout(hello.Context(), patience)
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
