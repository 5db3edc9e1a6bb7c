package membership

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"

	"github.com/pgmesh/pgmesh/identity"
	"github.com/pgmesh/pgmesh/identity/jointoken"
)

// ErrWrongServer is returned for a server of another program or mesh.
var ErrWrongServer = errors.New("this is not the server that was meant")

// ErrNotPinned is returned for a server whose certificate leads to none of the token's pinned
// roots.
var ErrNotPinned = errors.New("the server's certificate leads to none of the roots that the join token names: " +
	"it is not a server of the mesh that the token is for, or the mesh's root has changed since the token was made")

// ByToken returns the TLS configuration of a joiner's first connection, when it has only a join
// token. It accepts only servers of the program whose certificate leads to a pinned root, so the
// token is sent to nobody else.
func ByToken(token jointoken.Token, program identity.Program) *tls.Config {
	return first(program, func(shown []*x509.Certificate) ([]*x509.Certificate, error) {
		var roots []*x509.Certificate
		for _, c := range shown[1:] {
			// Require a self-signed root: in a certificate that someone else made for the root's
			// key, the validity and usage would be theirs.
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

// ByRoots returns the TLS configuration of the first connection when the mesh's roots are known.
func ByRoots(roots []*x509.Certificate, program identity.Program) *tls.Config {
	return first(program, func([]*x509.Certificate) ([]*x509.Certificate, error) { return roots, nil })
}

// first accepts any trust domain that the roots vouch for, because the mesh's own is not known yet.
func first(program identity.Program, rootsAmong func([]*x509.Certificate) ([]*x509.Certificate, error)) *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: true, //nolint:gosec // skips only the host name: VerifyConnection verifies the chain
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
			line, err := pathToRoot(id, shown, roots, x509.ExtKeyUsageServerAuth)
			if err != nil {
				return err
			}
			return IsProgram(program)(Peer{ID: id, Chain: line})
		},
	}
}
