package membership

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"

	"github.com/pgmesh/pgmesh/internal/authority"
	"github.com/pgmesh/pgmesh/internal/identity"
)

// Server is the configuration of a listener, which takes what is newest for each connection. Clients that show a certificate, which they
// may (tls.VerifyClientCertIfGiven) or must (tls.RequireAndVerifyClientCert), are those that the trust vouches for. Protocols are what is
// spoken over it, the best first: "h2", "http/1.1".
func (m *Membership) Server(clients tls.ClientAuthType, protocols ...string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: protocols,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			s := m.Current()
			return &tls.Config{
				MinVersion:   tls.VersionTLS12,
				NextProtos:   protocols,
				Certificates: []tls.Certificate{s.shown()},
				ClientAuth:   clients,
				ClientCAs:    authority.Pool(s.Trust.all()...),
				// A session that is resumed does not show its certificate again, which may not be trusted any more.
				SessionTicketsDisabled: true,
				VerifyConnection: func(c tls.ConnectionState) error {
					if len(c.PeerCertificates) == 0 {
						return nil // then ClientAuth allows it
					}
					_, err := s.Trust.Verify(c.PeerCertificates, x509.ExtKeyUsageClientAuth)
					return err
				},
			}, nil
		},
	}
}

// Accept tells what is wrong with who was verified.
type Accept func(Peer) error

// Client is the configuration of connections to others, who are accepted by their SPIFFE ids and never by the names that they are dialed
// by. It shows the newest certificate to each.
func (m *Membership) Client(accept Accept) *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: true, //nolint:gosec // of names alone: VerifyConnection does the rest
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

// IsProgram accepts the servers of a program, of the mesh itself.
func IsProgram(program identity.Program) Accept {
	return func(p Peer) error {
		if server, ok := identity.ServerOf(p.ID); ok && server.Program == program && !p.Federated {
			return nil
		}
		return fmt.Errorf("%w: it is %s, and has to be a %s of this mesh", ErrWrongServer, p.ID, program)
	}
}
