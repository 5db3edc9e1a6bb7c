// Package signer signs with keys that are elsewhere, and never come to the memory of mcp-server: in a token of PKCS #11, or with a KMS, by a command.
package signer

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
)

// keyHolder is where a key is.
type keyHolder interface {
	// sign signs a digest: for keys of ECDSA in the form of ASN.1, for RSA as PKCS #1 v1.5 says.
	sign(ctx context.Context, public crypto.PublicKey, digest []byte, hash crypto.Hash) ([]byte, error)
	// public is the key's other half.
	public(ctx context.Context) (crypto.PublicKey, error)
}

// Signer is a key that is elsewhere.
type Signer struct {
	holder keyHolder
	public crypto.PublicKey
}

// Public is the other half of the key.
func (s *Signer) Public() crypto.PublicKey { return s.public }

// Sign has a digest signed. Certificates are signed so: a digest of SHA-2, and for RSA keys PKCS #1 v1.5.
func (s *Signer) Sign(_ io.Reader, digest []byte, o crypto.SignerOpts) ([]byte, error) {
	if _, pss := o.(*rsa.PSSOptions); pss || o.HashFunc() == 0 {
		return nil, errors.New("sign with a key elsewhere: it signs digests, of ECDSA and of RSA with PKCS #1 v1.5")
	}
	signature, err := s.holder.sign(context.Background(), s.public, digest, o.HashFunc())
	if err != nil {
		return nil, fmt.Errorf("sign with a key elsewhere: %w", err)
	}
	return signature, nil
}

// check has something signed, to learn now whether the key is there, and that of the certificate.
func (s *Signer) check() error {
	digest := sha256.Sum256([]byte("is this the key?"))
	signature, err := s.Sign(nil, digest[:], crypto.SHA256)
	if err != nil {
		return err
	}
	var fits bool
	switch public := s.public.(type) {
	case *ecdsa.PublicKey:
		fits = ecdsa.VerifyASN1(public, digest[:], signature)
	case *rsa.PublicKey:
		fits = rsa.VerifyPKCS1v15(public, crypto.SHA256, digest[:], signature) == nil
	default:
		return fmt.Errorf("sign with a key elsewhere: a key of the kind %T is not known: it has to be of ECDSA or RSA", s.public)
	}
	if !fits {
		return errors.New("sign with a key elsewhere: the signature is not that of the certificate's key: the key is another, or the answer is no signature of the digest " +
			"(for ECDSA in the form of ASN.1, not in base64)")
	}
	return nil
}
