// Package seal encrypts the private values of secrets before they are stored in the database, and
// decrypts them for those who may see them.
//
// It uses AES-256-GCM with keys that the database never sees: they are in a file, derived from a
// passphrase, or encrypted by a KMS. A sealed value names its key and is bound to its place: in
// another secret, or as another value of its secret, it does not open. The nonce is a keyed hash of
// the place and the value, so the same value in the same place seals to the same text, and applying
// it again changes nothing. It reveals nothing else.
package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
)

// prefix begins sealed values of this version: prefix, key id, ":", base64 of nonce and ciphertext.
const prefix = "pgmesh:v1:"

// Keys seal with their first key, and open with any. They may be used concurrently.
type Keys struct {
	keys   atomic.Pointer[[]*key] // replaced as a whole
	source source                 // of keys that have to be unlocked; nil for none
	old    []*key                 // these only open
}

// None are the keys of a server that has none: it stores secrets in plain text, and opens none that
// others sealed.
var None = &Keys{}

// key is one key, split for its two uses.
type key struct {
	id     string
	aead   cipher.AEAD
	nonces []byte
	first  bool // derived from the passphrase that is to seal
}

// KeySize is the size of a key in bytes.
const KeySize = 32

// New returns keys, of which the first seals.
func New(secrets ...[]byte) (*Keys, error) {
	if len(secrets) == 0 {
		return nil, errors.New("there is no key")
	}
	var all []*key
	for _, secret := range secrets {
		made, err := newKey(secret)
		if err != nil {
			return nil, err
		}
		all = append(all, made)
	}
	return keysOf(all), nil
}

func keysOf(all []*key) *Keys {
	k := &Keys{}
	k.keys.Store(&all)
	return k
}

// all returns the current keys, the one that seals first.
func (k *Keys) all() []*key {
	if all := k.keys.Load(); all != nil {
		return *all
	}
	return nil
}

func newKey(secret []byte) (*key, error) {
	if len(secret) != KeySize {
		return nil, fmt.Errorf("a key has %d bytes, expected %d", len(secret), KeySize)
	}
	derived := map[string][]byte{}
	for _, use := range []string{"encrypt", "nonce", "name"} {
		var err error
		if derived[use], err = hkdf.Key(sha256.New, secret, nil, "pgmesh secrets v1 "+use, KeySize); err != nil {
			return nil, fmt.Errorf("derive a key: %w", err)
		}
	}
	block, err := aes.NewCipher(derived["encrypt"])
	if err != nil {
		return nil, fmt.Errorf("use a key: %w", err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, fmt.Errorf("use a key: %w", err)
	}
	return &key{id: hex.EncodeToString(derived["name"][:8]), aead: aead, nonces: derived["nonce"]}, nil
}

// Place is the place of a value: which value of which secret.
type Place struct{ Namespace, Name, Value string }

func (p Place) bytes() []byte { return []byte(p.Namespace + "/" + p.Name + "/" + p.Value) } // no part contains a slash

// Can reports whether there is a key to seal with. Keys that have to be unlocked cannot seal before
// that.
func (k *Keys) Can() bool { return len(k.all()) > 0 }

// Seal encrypts a value.
func (k *Keys) Seal(at Place, value []byte) string {
	return k.all()[0].seal(at, value)
}

func (k *key) seal(at Place, value []byte) string {
	mac := hmac.New(sha256.New, k.nonces)
	mac.Write(at.bytes())
	mac.Write([]byte{0})
	mac.Write(value)
	nonce := mac.Sum(nil)[:k.aead.NonceSize()]
	return prefix + k.id + ":" + base64.StdEncoding.EncodeToString(k.aead.Seal(nonce, nonce, value, at.bytes()))
}

// IsSealed reports whether a stored value is sealed. Others are base64, which has no colon.
func IsSealed(stored string) bool { return strings.HasPrefix(stored, "pgmesh:") }

// Current reports whether a value is sealed with the key that seals now.
func (k *Keys) Current(stored string) bool {
	return k.Can() && strings.HasPrefix(stored, prefix+k.all()[0].id+":")
}

// Open decrypts a value. Its error quotes nothing of it.
func (k *Keys) Open(at Place, stored string) ([]byte, error) {
	rest, ok := strings.CutPrefix(stored, prefix)
	id, text, found := strings.Cut(rest, ":")
	if !ok || !found {
		return nil, errors.New("it is sealed in a form that this program does not know: upgrade it")
	}
	with := k.byID(id)
	if with == nil {
		return nil, fmt.Errorf("it is sealed with the key %.16s, which this server does not have: give it --secrets-key-file, --secrets-passphrase-file or "+
			"--secrets-kms-command as it was when this was sealed, or --old-secrets-key-file beside what seals now", id)
	}
	sealed, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(sealed) < with.aead.NonceSize() {
		return nil, errors.New("it is damaged: write it anew")
	}
	value, err := with.aead.Open(nil, sealed[:with.aead.NonceSize()], sealed[with.aead.NonceSize():], at.bytes())
	if err != nil {
		return nil, errors.New("it was changed, or moved here from another secret: write it again")
	}
	return value, nil
}

func (k *Keys) byID(id string) *key {
	for _, one := range slices.Concat(k.all(), k.old) {
		if one.id == id {
			return one
		}
	}
	return nil
}
