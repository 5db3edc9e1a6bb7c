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
	// maxRequest is far above the size of any real request.
	maxRequest = 16 << 10

	minRSABits = 2048
	maxRSABits = 8192 // the limit of Go's TLS; larger keys are also slow
	minECBits  = 256
)

// CSR is a certificate request whose sender has proven that it has the key.
type CSR struct {
	request *x509.CertificateRequest
}

// ErrRequest marks a certificate request that cannot be granted.
var ErrRequest = errors.New("this request for a certificate cannot be granted")

func refused(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrRequest, fmt.Errorf(format, args...))
}

// NewRequest creates a certificate request, in PEM, for a key. It has no name: the signer knows the
// sender by other means.
func NewRequest(key crypto.Signer) ([]byte, error) { return NewRequestFor(key, "") }

// NewRequestFor is NewRequest with a common name, for the person who signs it.
func NewRequestFor(key crypto.Signer, name string) ([]byte, error) {
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: name}}, key)
	if err != nil {
		return nil, fmt.Errorf("make a request for a certificate: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: requestBlock, Bytes: der}), nil
}

// ParseRequest parses a PKCS #10 request in PEM, and checks that its sender has the key and that
// the key is strong enough.
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

// KeyHash returns the SHA-256 of the public key.
func (c *CSR) KeyHash() [sha256.Size]byte { return sha256.Sum256(c.request.RawSubjectPublicKeyInfo) }

// checkKey refuses keys that are weak or that TLS does not support.
func checkKey(key any) error {
	switch k := key.(type) {
	case *rsa.PublicKey:
		if bits := k.N.BitLen(); bits < minRSABits || bits > maxRSABits {
			return fmt.Errorf("its RSA key has %d bits, and has to have %d to %d", bits, minRSABits, maxRSABits)
		}
	case *ecdsa.PublicKey:
		if bits := k.Curve.Params().BitSize; bits < minECBits {
			return fmt.Errorf("its elliptic curve has %d bits, and has to have at least %d", bits, minECBits)
		}
	case ed25519.PublicKey:
	default:
		return errors.New("its key is of a sort that is not known here: use ECDSA P-256")
	}
	return nil
}
