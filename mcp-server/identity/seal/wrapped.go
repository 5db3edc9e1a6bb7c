package seal

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
)

// Wrapped is the stored form of a key: how to derive it from a passphrase, or the key as a KMS
// encrypted it. It is not secret.
type Wrapped struct {
	ID   string // of the key
	Text string
}

// source unlocks and creates keys.
type source interface {
	// unlock returns the keys that it can unlock, the one that is to seal first, or an error if it
	// should have unlocked one.
	unlock(ctx context.Context, kept []Wrapped) ([]*key, error)
	// canSeal reports whether the first of the keys is to seal. If not, a key has to be created.
	canSeal(keys []*key) bool
	// wrap creates a key.
	wrap(ctx context.Context) (Wrapped, error)
}

// KeyStore stores wrapped keys.
type KeyStore interface {
	// Keys returns the stored keys, the oldest first.
	Keys(ctx context.Context) ([]Wrapped, error)
	// Add stores a key if there are still as many as known, and reports whether it did.
	Add(ctx context.Context, w Wrapped, known int) (bool, error)
}

// Unlock unlocks the stored keys, and creates one if none can seal. Servers that do so at the same
// time end with one key. It does nothing for keys from a file.
func (k *Keys) Unlock(ctx context.Context, in KeyStore) error {
	if k.source == nil {
		return nil
	}
	for {
		kept, err := in.Keys(ctx)
		if err != nil {
			return err
		}
		if err := k.Take(ctx, kept); err != nil || k.source.canSeal(k.all()) {
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

// Take unlocks stored keys, given the oldest first.
func (k *Keys) Take(ctx context.Context, kept []Wrapped) error {
	if k.source == nil || k.unlockedAll(kept) {
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

// unlockedAll reports whether all these keys are unlocked already.
func (k *Keys) unlockedAll(kept []Wrapped) bool {
	for _, w := range kept {
		if k.byID(w.ID) == nil {
			return false
		}
	}
	return true
}

var errWrapped = errors.New("a stored key is damaged: restore the table mesh.sealing_keys from a backup, or delete the row and write the secrets again")

func newSecret() []byte {
	secret := make([]byte, KeySize)
	_, _ = rand.Read(secret) // which never fails
	return secret
}

func checkedKey(w Wrapped, secret []byte) (*key, error) {
	k, err := newKey(secret)
	if err == nil && k.id != w.ID {
		err = fmt.Errorf("it is another key than %.16s, which is kept", w.ID)
	}
	return k, err
}
