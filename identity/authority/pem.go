package authority

import (
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
)

const (
	certificateBlock = "CERTIFICATE"
	requestBlock     = "CERTIFICATE REQUEST"
	keyBlock         = "PRIVATE KEY"
)

// ParseCertificates reads all certificates in a PEM text. It fails if one of them is unreadable:
// skipping that one would silently turn away everyone it vouches for.
func ParseCertificates(text []byte) ([]*x509.Certificate, error) {
	var found []*x509.Certificate
	for {
		block, rest := pem.Decode(text)
		if block == nil {
			break
		}
		text = rest
		if block.Type != certificateBlock {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("certificate %d: %w", len(found)+1, err)
		}
		found = append(found, c)
	}
	if len(found) == 0 {
		return nil, errors.New("there is no certificate in it, in PEM form")
	}
	return found, nil
}

// EncodeCertificates encodes certificates as PEM.
func EncodeCertificates(certificates ...*x509.Certificate) []byte {
	var out []byte
	for _, c := range certificates {
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: certificateBlock, Bytes: c.Raw})...)
	}
	return out
}

// ParseKey reads the first private key in a PEM text: PKCS #8, or the older RSA and EC forms. Its
// errors do not quote the text.
func ParseKey(text []byte) (crypto.Signer, error) {
	for {
		block, rest := pem.Decode(text)
		if block == nil {
			return nil, errors.New("there is no private key in it, in PEM form and not encrypted")
		}
		text = rest
		switch block.Type {
		case keyBlock:
			key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
			signer, ok := key.(crypto.Signer)
			if err != nil || !ok {
				return nil, errors.New("the private key cannot be read: it has to be PKCS #8, of ECDSA, RSA or Ed25519")
			}
			return signer, nil
		case "EC PRIVATE KEY":
			key, err := x509.ParseECPrivateKey(block.Bytes)
			if err != nil {
				return nil, errors.New("the private key of an elliptic curve cannot be read")
			}
			return key, nil
		case "RSA PRIVATE KEY":
			key, err := x509.ParsePKCS1PrivateKey(block.Bytes)
			if err != nil {
				return nil, errors.New("the RSA private key cannot be read: is it encrypted?")
			}
			return key, nil
		}
	}
}

// EncodeKey encodes a private key as PKCS #8 in PEM.
func EncodeKey(key crypto.Signer) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("write the private key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: keyBlock, Bytes: der}), nil
}

// Pool returns a pool of certificates.
func Pool(certificates ...*x509.Certificate) *x509.CertPool {
	pool := x509.NewCertPool()
	for _, c := range certificates {
		pool.AddCert(c)
	}
	return pool
}

// Fits reports whether a key belongs to a certificate.
func Fits(key crypto.Signer, c *x509.Certificate) bool {
	public, ok := c.PublicKey.(interface {
		Equal(other crypto.PublicKey) bool
	})
	return ok && public.Equal(key.Public())
}
