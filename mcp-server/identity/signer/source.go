package signer

import (
	"context"
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"strings"
)

// Source names an external key.
type Source struct {
	Key       string // a PKCS #11 URI; a file's path is not for this package
	Command   string
	PublicKey string // with Command: a file, needed while there is no certificate
}

// KeyFlag is the flag of the key, which may also name a file.
const KeyFlag = "authority-key"

// CommandFlag is the flag of a command that signs instead, and CommandHelp its help text.
const (
	CommandFlag = "authority-signer-command"
	CommandHelp = "in place of --authority-key: command that signs with the key of --authority-cert, which a KMS has. It is run without a shell, with sign and the name of " +
		"the hash (sha256, sha384, sha512) as its last arguments, reads the digest from its input, and writes the signature to its output; words are separated by spaces"
)

// External reports whether the key is in a token or with a KMS.
func (s *Source) External() bool { return s.Command != "" || strings.HasPrefix(s.Key, scheme) }

// Check reports contradictory or invalid settings.
func (s *Source) Check() error {
	if s.Command != "" && s.Key != "" {
		return fmt.Errorf("--%s and --%s exclude each other: there is one key that signs", KeyFlag, CommandFlag)
	}
	_, err := s.open()
	return err
}

func (s *Source) open() (keyHolder, error) {
	if s.Command != "" {
		c, err := newCommand(s.Command, s.PublicKey)
		if err != nil {
			return nil, fmt.Errorf("--%s: %w", CommandFlag, err)
		}
		return c, nil
	}
	t, err := parseURI(s.Key)
	if err != nil {
		return nil, fmt.Errorf("--%s %s: %w", KeyFlag, s.Key, err)
	}
	return t, nil
}

// Of returns the signer for a certificate, after a test signature.
func (s *Source) Of(c *x509.Certificate) (*Signer, error) {
	holder, err := s.open()
	if err != nil {
		return nil, err
	}
	made := &Signer{holder, c.PublicKey}
	return made, made.check()
}

// New returns the signer for a key without a certificate, after a test signature.
func (s *Source) New(ctx context.Context) (*Signer, error) {
	holder, err := s.open()
	if err != nil {
		return nil, err
	}
	public, err := holder.public(ctx)
	if err != nil {
		return nil, err
	}
	made := &Signer{holder, public}
	return made, made.check()
}

// Generate creates the key in its token, from which it cannot be exported.
func (s *Source) Generate(ctx context.Context) error {
	holder, err := s.open()
	if err != nil {
		return err
	}
	t, is := holder.(*token)
	if !is {
		return errors.New("--generate is for tokens of PKCS #11: make the key with the KMS")
	}
	return t.generate(ctx)
}

// publicIn reads a public key file as KMSs give it: PEM or DER.
func publicIn(file string) (crypto.PublicKey, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	if block, _ := pem.Decode(content); block != nil {
		content = block.Bytes
	}
	public, err := x509.ParsePKIXPublicKey(content)
	if err != nil {
		return nil, fmt.Errorf("%s: there is no public key in it, in PEM or DER form", file)
	}
	return public, nil
}
