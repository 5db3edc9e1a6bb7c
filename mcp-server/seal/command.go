package seal

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pgmesh/pgmesh/mcp-server/outside"
)

// command is that of a KMS. It is asked once for each key that is kept, when a server starts, and once more to make one.
type command struct{ *outside.Command }

// commandPrefix is what is kept of a key that a KMS has encrypted begins with.
const commandPrefix = "kms:"

func newCommand(text string) (*command, error) {
	c, err := outside.Parse(text)
	return &command{c}, err
}

func (c *command) sealing(keys []*key) bool { return len(keys) > 0 }

// unlock leaves out what cannot be decrypted, unless that is everything: a key that the KMS has lost takes along what it has sealed, and
// nothing else.
func (c *command) unlock(ctx context.Context, kept []Wrapped) (found []*key, err error) {
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

func (c *command) open(ctx context.Context, w Wrapped, text string) (*key, error) {
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
	k, err := checked(w, secret)
	if err != nil {
		return nil, fmt.Errorf("%s decrypt: %w", c, err)
	}
	return k, nil
}

// wrap also decrypts what was encrypted: what is sealed by a key that never comes back is lost.
func (c *command) wrap(ctx context.Context) (Wrapped, error) {
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

// run has the KMS encrypt or decrypt.
func (c *command) run(ctx context.Context, what string, input []byte) ([]byte, error) {
	return c.Run(ctx, outside.Call{What: what, Args: []string{what}, Input: input})
}
