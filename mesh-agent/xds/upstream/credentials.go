package upstream

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"time"

	"github.com/pgmesh/pgmesh/identity"
	"github.com/pgmesh/pgmesh/identity/authority"
	"github.com/pgmesh/pgmesh/identity/membership"
	"github.com/pgmesh/pgmesh/internal/kit/reload"
	identityv1 "github.com/pgmesh/pgmesh/proto/pgmesh/identity/v1"
)

// Credentials authenticate this machine to discovery, and discovery to this machine.
type Credentials struct {
	// TLS shows the newest certificate on each connection, and must have VerifyConnection.
	TLS *tls.Config
	// Outdated notes the present certificate. The function it returns blocks until a newer one
	// would be shown or the context ends. A nil Outdated means that certificates never change.
	Outdated func(ctx context.Context) (wait func())
}

// Insecure are the credentials of a machine that speaks plaintext with discovery: neither proves
// anything.
var Insecure = &Credentials{}

// outdated returns a channel that is closed when a connection made now shows an old certificate. It
// is nil if that never happens.
func (c *Credentials) outdated(ctx context.Context) <-chan struct{} {
	if c.Outdated == nil {
		return nil
	}
	outdated, wait := make(chan struct{}), c.Outdated(ctx)
	go func() {
		if wait(); ctx.Err() == nil {
			close(outdated)
		}
	}()
	return outdated
}

// reportVerify passes the result of each verification to report.
func reportVerify(verify func(tls.ConnectionState) error, report func(error)) func(tls.ConnectionState) error {
	return func(s tls.ConnectionState) error {
		err := verify(s)
		report(err)
		return err
	}
}

// Member returns the credentials of a machine with a certificate of the mesh.
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

// Files returns credentials from files, which are read again when they change, for a machine whose
// certificate comes from another issuer. The certificate decides the trust domain.
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
			InsecureSkipVerify: true, //nolint:gosec // skips only the check of names: VerifyConnection does the rest
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
			return func() { pollWhile(ctx, func() bool { return bytes.Equal(files.Fresh().certificate.Leaf.Raw, shown) }) }
		},
	}, nil
}

// pollWhile checks each second and returns when unchanged is false or the context ends.
func pollWhile(ctx context.Context, unchanged func() bool) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for unchanged() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
