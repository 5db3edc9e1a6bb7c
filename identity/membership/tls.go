package membership

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"

	"github.com/pgmesh/pgmesh/identity"
	"github.com/pgmesh/pgmesh/identity/authority"
)

// Server returns the configuration of a listener, which uses the current state for each connection.
// clients says whether clients may (tls.VerifyClientCertIfGiven) or must
// (tls.RequireAndVerifyClientCert) present a certificate, which the trust then verifies. protocols
// are for ALPN, the preferred first: "h2", "http/1.1".
func (m *Membership) Server(clients tls.ClientAuthType, protocols ...string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: protocols,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			s := m.Current()
			return &tls.Config{
				MinVersion:   tls.VersionTLS12,
				NextProtos:   protocols,
				Certificates: []tls.Certificate{s.certificateWithRoot()},
				ClientAuth:   clients,
				ClientCAs:    authority.Pool(s.Trust.all()...),
				// A resumed session would not verify the client's certificate again, which may no
				// longer be trusted.
				SessionTicketsDisabled: true,
				VerifyConnection: func(c tls.ConnectionState) error {
					if len(c.PeerCertificates) == 0 {
						return nil // ClientAuth decided that this is allowed
					}
					_, err := s.Trust.Verify(c.PeerCertificates, x509.ExtKeyUsageClientAuth)
					return err
				},
			}, nil
		},
	}
}

// Accept returns an error for a verified peer that is not wanted.
type Accept func(Peer) error

// Client returns the configuration of outgoing connections. It verifies servers by SPIFFE id, never
// by the dialed name, and presents the current certificate.
func (m *Membership) Client(accept Accept) *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: true, //nolint:gosec // skips only the host name: VerifyConnection verifies the chain
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return &m.Current().Certificate, nil
		},
		VerifyConnection: func(c tls.ConnectionState) error {
			peer, err := m.Current().Trust.Verify(c.PeerCertificates, x509.ExtKeyUsageServerAuth)
			if err != nil {
				return err
			}
			return accept(peer)
		},
	}
}

// IsProgram accepts the servers of a program in the mesh itself.
func IsProgram(program identity.Program) Accept {
	return func(p Peer) error {
		if server, ok := identity.ServerOf(p.ID); ok && server.Program == program && !p.Federated {
			return nil
		}
		return fmt.Errorf("%w: it is %s, and has to be a %s of this mesh", ErrWrongServer, p.ID, program)
	}
}
