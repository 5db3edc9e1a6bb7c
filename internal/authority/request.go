package authority

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
)

const (
	// maxRequest is a size that no request for a certificate comes near.
	maxRequest = 16 << 10

	leastRSA = 2048
	mostRSA  = 8192 // Go's TLS takes no larger ones, and they cost time
	leastEC  = 256
)

// CSR is a request for a certificate whose sender has the key.
type CSR struct {
	request *x509.CertificateRequest
}

// ErrRequest is what is wrong with a request for a certificate, or with what it asks for.
var ErrRequest = errors.New("this request for a certificate cannot be granted")

func refused(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrRequest, fmt.Errorf(format, args...))
}

// NewRequest asks for a certificate for a key. It names nobody: who asks is known by other means.
func NewRequest(key crypto.Signer) ([]byte, error) { return NewRequestFor(key, "") }

// NewRequestFor is NewRequest for somebody whom people who sign know by a name.
func NewRequestFor(key crypto.Signer, name string) ([]byte, error) {
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: name}}, key)
	if err != nil {
		return nil, fmt.Errorf("make a request for a certificate: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: requestBlock, Bytes: der}), nil
}

// ParseRequest reads a PKCS #10 request in PEM and checks that its sender has the key, which is strong enough.
func ParseRequest(text []byte) (*CSR, error) {
	if len(text) > maxRequest {
		return nil, refused("it has %d bytes, of which %d are enough for any", len(text), maxRequest)
	}
	block, _ := pem.Decode(text)
	if block == nil || (block.Type != requestBlock && block.Type != "NEW "+requestBlock) {
		return nil, refused("it is not PKCS #10 in PEM form, which begins with -----BEGIN %s-----", requestBlock)
	}
	r, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, refused("read it: %w", err)
	}
	if err := checkKey(r.PublicKey); err != nil {
		return nil, refused("%w", err)
	}
	if err := r.CheckSignature(); err != nil {
		return nil, refused("its signature is not by its key: %w", err)
	}
	return &CSR{r}, nil
}

// KeyHash is the SHA-256 of the public key that is to be certified.
func (c *CSR) KeyHash() [sha256.Size]byte { return sha256.Sum256(c.request.RawSubjectPublicKeyInfo) }

// checkKey refuses keys that can be broken, or that TLS does not take.
func checkKey(key any) error {
	switch k := key.(type) {
	case *rsa.PublicKey:
		if bits := k.N.BitLen(); bits < leastRSA || bits > mostRSA {
			return fmt.Errorf("its RSA key has %d bits, and has to have %d to %d", bits, leastRSA, mostRSA)
		}
	case *ecdsa.PublicKey:
		if bits := k.Curve.Params().BitSize; bits < leastEC {
			return fmt.Errorf("its elliptic curve has %d bits, and has to have at least %d", bits, leastEC)
		}
	case ed25519.PublicKey:
	default:
		return errors.New("its key is of a sort that is not known here: use ECDSA P-256")
	}
	return nil
}
