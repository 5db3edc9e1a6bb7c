package membership

import (
	"crypto"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	"github.com/spiffe/go-spiffe/v2/spiffeid"

	"github.com/pgmesh/pgmesh/identity"
	"github.com/pgmesh/pgmesh/identity/authority"
)

// State is a membership at one moment. It is immutable.
type State struct {
	ID          spiffeid.ID
	Certificate tls.Certificate // with Leaf set, without the root
	Trust       *Trust

	key      crypto.Signer
	root     *x509.Certificate // the end of the certificate's chain
	replaced chan struct{}
}

// Replaced returns a channel that is closed when there is a newer State, with another certificate
// or another trust.
func (s *State) Replaced() <-chan struct{} { return s.replaced }

// NotAfter returns when the certificate ends.
func (s *State) NotAfter() time.Time { return s.Certificate.Leaf.NotAfter }

// ChainPEM returns the certificate and the intermediates up to the root.
func (s *State) ChainPEM() []byte { return authority.EncodeCertificates(s.chain()...) }

// KeyPEM returns the certificate's private key.
func (s *State) KeyPEM() ([]byte, error) { return authority.EncodeKey(s.key) }

func (s *State) chain() []*x509.Certificate {
	var out []*x509.Certificate
	for _, der := range s.Certificate.Certificate {
		c, _ := x509.ParseCertificate(der) // it was parsed before
		out = append(out, c)
	}
	return out
}

// newState checks that a certificate, its key and a trust match and are valid now.
func newState(chain []byte, key crypto.Signer, trust *Trust, is func(spiffeid.ID) error) (*State, error) {
	certificates, err := authority.ParseCertificates(chain)
	if err != nil {
		return nil, err
	}
	leaf := certificates[0]
	if !authority.Fits(key, leaf) {
		return nil, errors.New("the key beside the certificate is another's")
	}
	id, err := identity.Of(leaf)
	if err != nil {
		return nil, err
	}
	if is != nil {
		if err := is(id); err != nil {
			return nil, err
		}
	}
	if now := time.Now(); now.After(leaf.NotAfter) {
		return nil, fmt.Errorf("%w: that of %s at %s", ErrExpired, id, stamp(leaf.NotAfter))
	}
	peer, err := trust.Verify(certificates, x509.ExtKeyUsageClientAuth)
	if err != nil {
		return nil, err
	}
	if peer.Federated {
		return nil, fmt.Errorf("%w: it is for %s, and this mesh is %s", ErrOtherMesh, id, trust.Domain)
	}
	s := &State{
		ID: id, Trust: trust, key: key, root: peer.Root(), replaced: make(chan struct{}),
		Certificate: tls.Certificate{PrivateKey: key, Leaf: leaf},
	}
	for _, c := range peer.Chain[:len(peer.Chain)-1] {
		s.Certificate.Certificate = append(s.Certificate.Certificate, c.Raw)
	}
	return s, nil
}

// with returns the state with another trust.
func (s *State) with(trust *Trust) *State {
	return &State{ID: s.ID, Certificate: s.Certificate, Trust: trust, key: s.key, root: s.root, replaced: make(chan struct{})}
}

// outdated reports whether the mesh's active root is another than this certificate's.
func (s *State) outdated() bool {
	pin := sha256.Sum256(s.root.RawSubjectPublicKeyInfo)
	return len(s.Trust.active) > 0 && string(s.Trust.active) != string(pin[:])
}

// certificateWithRoot returns the certificate as servers present it: with the root, because a
// joiner knows only the root's fingerprint.
func (s *State) certificateWithRoot() tls.Certificate {
	c := s.Certificate
	c.Certificate = append(append([][]byte(nil), c.Certificate...), s.root.Raw)
	return c
}
