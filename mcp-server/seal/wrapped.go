package seal

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
)

// Wrapped is what is kept of a key that is in no file: how it comes of a passphrase, or itself as a KMS has encrypted it. It is no
// secret.
type Wrapped struct {
	ID   string // of the key
	Text string
}

// source is where keys come from that are unlocked.
type source interface {
	// unlock returns those keys that it can, the one that is to seal first, and why it could not unlock what is its own.
	unlock(ctx context.Context, kept []Wrapped) ([]*key, error)
	// sealing tells whether the first of the keys is to seal, or one has to be made for that.
	sealing(keys []*key) bool
	// wrap makes a key.
	wrap(ctx context.Context) (Wrapped, error)
}

// Keep is where wrapped keys are kept.
type Keep interface {
	// Keys are those that are kept, the oldest first.
	Keys(ctx context.Context) ([]Wrapped, error)
	// Add keeps another, if there still are as many as were known, and tells whether it did.
	Add(ctx context.Context, w Wrapped, known int) (bool, error)
}

// Unlock takes over the keys that are kept, and has one made if there is none to seal with. Servers that do so together end with one.
// Keys of a file are there already.
func (k *Keys) Unlock(ctx context.Context, in Keep) error {
	if k == nil || k.source == nil {
		return nil
	}
	for {
		kept, err := in.Keys(ctx)
		if err != nil {
			return err
		}
		if err := k.Take(ctx, kept); err != nil || k.source.sealing(k.all()) {
			return err
		}
		wrapped, err := k.source.wrap(ctx)
		if err != nil {
			return err
		}
		if _, err := in.Add(ctx, wrapped, len(kept)); err != nil {
			return err
		}
	}
}

// Take takes over keys as they are kept, the oldest first.
func (k *Keys) Take(ctx context.Context, kept []Wrapped) error {
	if k == nil || k.source == nil || k.has(kept) {
		return nil
	}
	found, err := k.source.unlock(ctx, kept)
	if err != nil {
		return err
	}
	if len(found) > 0 {
		k.keys.Store(&found)
	}
	return nil
}

// has tells whether all of them were unlocked already.
func (k *Keys) has(kept []Wrapped) bool {
	for _, w := range kept {
		if k.named(w.ID) == nil {
			return false
		}
	}
	return true
}

var errWrapped = errors.New("what is kept of a key is damaged: restore the table mesh.sealing_keys from a backup, or delete the row and write the secrets anew")

func newSecret() []byte {
	secret := make([]byte, KeySize)
	_, _ = rand.Read(secret) // which never fails
	return secret
}

func checked(w Wrapped, secret []byte) (*key, error) {
	k, err := newKey(secret)
	if err == nil && k.id != w.ID {
		err = fmt.Errorf("it is another key than %.16s, which is kept", w.ID)
	}
	return k, err
}
