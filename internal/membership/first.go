package membership

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"

	"github.com/pgmesh/pgmesh/internal/identity"
	"github.com/pgmesh/pgmesh/internal/jointoken"
)

// ErrWrongServer is of a server that is not the one that was wanted.
var ErrWrongServer = errors.New("this is not the server that was meant")

// ErrNotPinned is of a server whose certificate leads to none of the roots that a join token names.
var ErrNotPinned = errors.New("the server's certificate leads to none of the roots that the join token names: " +
	"it is not a server of the mesh that the token is for, or the mesh's root has changed since the token was made")

// ByToken is the configuration of the first connection, of who has a join token and nothing else: to a server of a program whose certificate
// leads to a root that the token names. So the token is told to nobody else.
func ByToken(token jointoken.Token, program identity.Program) *tls.Config {
	return first(program, func(shown []*x509.Certificate) ([]*x509.Certificate, error) {
		var roots []*x509.Certificate
		for _, c := range shown[1:] {
			// A certificate that somebody else made for the root's key says what they want of how long and for what it is good.
			if token.Trusts(c) && c.CheckSignatureFrom(c) == nil {
				roots = append(roots, c)
			}
		}
		if len(roots) == 0 {
			return nil, ErrNotPinned
		}
		return roots, nil
	})
}

// ByRoots is the configuration of the first connection of who knows the roots of the mesh.
func ByRoots(roots []*x509.Certificate, program identity.Program) *tls.Config {
	return first(program, func([]*x509.Certificate) ([]*x509.Certificate, error) { return roots, nil })
}

// first trusts a server's roots for whatever trust domain they vouch for: that of the mesh is not known yet.
func first(program identity.Program, rootsAmong func([]*x509.Certificate) ([]*x509.Certificate, error)) *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: true, //nolint:gosec // of names alone: VerifyConnection does the rest
		VerifyConnection: func(c tls.ConnectionState) error {
			shown := c.PeerCertificates
			roots, err := rootsAmong(shown)
			if err != nil {
				return err
			}
			id, err := identity.Of(shown[0])
			if err != nil {
				return fmt.Errorf("%w: %w", ErrWrongServer, err)
			}
			line, err := lineage(id, shown, roots, x509.ExtKeyUsageServerAuth)
			if err != nil {
				return err
			}
			return IsProgram(program)(Peer{ID: id, Chain: line})
		},
	}
}
