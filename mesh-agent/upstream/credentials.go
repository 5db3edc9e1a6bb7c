package upstream

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"time"

	"github.com/pgmesh/pgmesh/internal/authority"
	"github.com/pgmesh/pgmesh/internal/identity"
	"github.com/pgmesh/pgmesh/internal/membership"
	"github.com/pgmesh/pgmesh/internal/reload"
	identityv1 "github.com/pgmesh/pgmesh/proto/pgmesh/identity/v1"
)

// Credentials are how a machine proves who it is, and knows a discovery.
type Credentials struct {
	// TLS shows what is newest to each connection, and has to have VerifyConnection.
	TLS *tls.Config
	// Outdated returns when something newer would be shown than at the moment of the call, or when the context ends. It may be nil: never.
	Outdated func(ctx context.Context) (wait func())
}

// dated is closed when what a connection shows that is made now is not the newest any more.
func (c *Credentials) dated(ctx context.Context) <-chan struct{} {
	if c == nil || c.Outdated == nil {
		return nil
	}
	dated, wait := make(chan struct{}), c.Outdated(ctx)
	go func() {
		if wait(); ctx.Err() == nil {
			close(dated)
		}
	}()
	return dated
}

func judged(verify func(tls.ConnectionState) error, judge func(error)) func(tls.ConnectionState) error {
	return func(s tls.ConnectionState) error {
		err := verify(s)
		judge(err)
		return err
	}
}

// Member is a machine with a certificate of the mesh.
func Member(m *membership.Membership) *Credentials {
	return &Credentials{
		TLS: m.Client(membership.IsProgram(identity.Discovery)),
		Outdated: func(ctx context.Context) func() {
			s := m.Current()
			shown := s.Certificate.Leaf
			return func() {
				for s.Certificate.Leaf.Equal(shown) {
					select {
					case <-s.Replaced():
						s = m.Current()
					case <-ctx.Done():
						return
					}
				}
			}
		},
	}
}

// Files is a machine whose certificate somebody else gives out, in files that are read again when they change. Its trust domain is that of
// the certificate.
func Files(cert, key, roots string, log *slog.Logger) (*Credentials, error) {
	type pair struct {
		certificate tls.Certificate
		trust       *membership.Trust
	}
	read := func(contents [][]byte) (p pair, err error) {
		if p.certificate, err = tls.X509KeyPair(contents[0], contents[1]); err != nil {
			return p, fmt.Errorf("%s and %s: %w", cert, key, err)
		}
		id, err := identity.Of(p.certificate.Leaf)
		if err != nil {
			return p, fmt.Errorf("%s: %w", cert, err)
		}
		if _, err = authority.ParseCertificates(contents[2]); err != nil {
			return p, fmt.Errorf("%s: %w", roots, err)
		}
		p.trust, err = membership.ParseTrust(&identityv1.Trust{TrustDomain: id.TrustDomain().Name(), Roots: contents[2]})
		return p, err
	}
	files, err := reload.Load(reload.Options{What: "certificate of this machine", Log: log}, read, cert, key, roots)
	if err != nil {
		return nil, err
	}
	return &Credentials{
		TLS: &tls.Config{
			MinVersion:         tls.VersionTLS12,
			InsecureSkipVerify: true, //nolint:gosec // of names alone: VerifyConnection does the rest
			GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
				shown := files.Fresh().certificate
				return &shown, nil
			},
			VerifyConnection: func(s tls.ConnectionState) error {
				peer, err := files.Fresh().trust.Verify(s.PeerCertificates, x509.ExtKeyUsageServerAuth)
				if err != nil {
					return err
				}
				return membership.IsProgram(identity.Discovery)(peer)
			},
		},
		Outdated: func(ctx context.Context) func() {
			shown := files.Fresh().certificate.Leaf.Raw
			return func() { eachSecond(ctx, func() bool { return bytes.Equal(files.Fresh().certificate.Leaf.Raw, shown) }) }
		},
	}, nil
}

// eachSecond returns when something is not so any more.
func eachSecond(ctx context.Context, so func() bool) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for so() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
