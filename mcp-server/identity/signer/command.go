package signer

import (
	"context"
	"crypto"
	"errors"
	"strings"

	"github.com/pgmesh/pgmesh/mcp-server/identity/outside"
)

// kms is the command of a KMS.
type kms struct {
	*outside.Command

	publicKey string // path of a file
}

func newCommand(text, publicKey string) (*kms, error) {
	c, err := outside.Parse(text)
	return &kms{c, publicKey}, err
}

func (c *kms) sign(ctx context.Context, _ crypto.PublicKey, digest []byte, hash crypto.Hash) ([]byte, error) {
	name := strings.ToLower(strings.ReplaceAll(hash.String(), "-", "")) // SHA-256
	return c.Run(ctx, outside.Call{What: "sign", Args: []string{"sign", name}, Input: digest})
}

func (c *kms) public(context.Context) (crypto.PublicKey, error) {
	if c.publicKey == "" {
		return nil, errors.New("--authority-public-key is missing: the file with the public key that the KMS gives, in PEM or DER form")
	}
	return publicIn(c.publicKey)
}
