// Package signer signs with external keys, which never enter mcp-server's memory: in a PKCS #11
// token, or with a KMS through a command.
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

// keyHolder holds a key.
type keyHolder interface {
	// sign signs a digest. Signatures are ASN.1 for ECDSA, and PKCS #1 v1.5 for RSA.
	sign(ctx context.Context, public crypto.PublicKey, digest []byte, hash crypto.Hash) ([]byte, error)
	// public returns the public key.
	public(ctx context.Context) (crypto.PublicKey, error)
}

// Signer signs with an external key.
type Signer struct {
	holder keyHolder
	public crypto.PublicKey
}

// Public returns the public key.
func (s *Signer) Public() crypto.PublicKey { return s.public }

// Sign signs a digest. Certificates need SHA-2 and, for RSA, PKCS #1 v1.5; nothing else is
// supported.
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

// check signs something, to find out now whether the key works and fits the certificate.
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
