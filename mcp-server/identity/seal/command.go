package seal

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pgmesh/pgmesh/mcp-server/identity/outside"
)

// kms is the command of a KMS. It runs once for each stored key when a server starts, and to create
// a key.
type kms struct{ *outside.Command }

// commandPrefix begins the stored form of a key that a KMS encrypted.
const commandPrefix = "kms:"

func newCommand(text string) (*kms, error) {
	c, err := outside.Parse(text)
	return &kms{c}, err
}

func (c *kms) canSeal(keys []*key) bool { return len(keys) > 0 }

// unlock skips keys that cannot be decrypted, unless none can. A key that the KMS has lost takes
// with it only what it sealed.
func (c *kms) unlock(ctx context.Context, kept []Wrapped) (found []*key, err error) {
	var failures []error
	for _, w := range slices.Backward(kept) {
		text, own := strings.CutPrefix(w.Text, commandPrefix)
		if !own {
			continue
		}
		k, err := c.open(ctx, w, text)
		if err != nil {
			failures = append(failures, err)
			continue
		}
		found = append(found, k)
	}
	if len(found) == 0 {
		return nil, errors.Join(failures...)
	}
	return found, nil
}

func (c *kms) open(ctx context.Context, w Wrapped, text string) (*key, error) {
	wrapped, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, errWrapped
	}
	line, err := c.run(ctx, "decrypt", wrapped)
	if err != nil {
		return nil, err
	}
	secret, err := base64.StdEncoding.DecodeString(string(bytes.TrimSpace(line)))
	if err != nil || len(secret) != KeySize {
		return nil, fmt.Errorf("%s decrypt: what it wrote is not what its encrypt was given, which was a line of base64", c)
	}
	k, err := checkedKey(w, secret)
	if err != nil {
		return nil, fmt.Errorf("%s decrypt: %w", c, err)
	}
	return k, nil
}

// wrap creates a key and decrypts it again, because whatever is sealed by a key that cannot be
// recovered is lost.
func (c *kms) wrap(ctx context.Context) (Wrapped, error) {
	secret := newSecret()
	k, err := newKey(secret)
	if err != nil {
		return Wrapped{}, err
	}
	wrapped, err := c.run(ctx, "encrypt", []byte(base64.StdEncoding.EncodeToString(secret)+"\n"))
	if err != nil {
		return Wrapped{}, err
	}
	w := Wrapped{k.id, commandPrefix + base64.StdEncoding.EncodeToString(wrapped)}
	if bytes.Contains(wrapped, []byte(base64.StdEncoding.EncodeToString(secret))) {
		return Wrapped{}, fmt.Errorf("%s encrypt: it did not encrypt", c)
	}
	_, err = c.open(ctx, w, strings.TrimPrefix(w.Text, commandPrefix))
	return w, err
}

// run runs the KMS command to encrypt or decrypt.
func (c *kms) run(ctx context.Context, what string, input []byte) ([]byte, error) {
	return c.Run(ctx, outside.Call{What: what, Args: []string{what}, Input: input})
}
