// Package signing signs what a release has with one OpenPGP key. The same key and text give the same
// signature, or releases could not be compared.
package signing

import (
	"bytes"
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/ProtonMail/go-crypto/openpgp/clearsign"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
)

// bits is the least length of a key: apt and rpm of today refuse shorter ones.
const bits = 3072

// Key signs a release, at one time.
type Key struct {
	entity  *openpgp.Entity
	private *rsa.PrivateKey
	signing *packet.PrivateKey
	at      time.Time
}

var errNotRSA = errors.New("releases are signed by an RSA key of 3072 bits or more, which every apt, rpm and cosign understands")

// Make makes a key that was never used before.
func Make(at time.Time) (*Key, error) {
	config := settings(born)
	config.RSABits = bits
	entity, err := openpgp.NewEntity("pgmesh, not for publication", "", "", config)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	return of(entity, at)
}

// born is when keys of Make say that they were made: before any commit that they could sign.
var born = time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)

// Read reads an armored private key, which passphrase unlocks if it is locked. Signatures say that
// they were made at the time given, or when the key was made if that is later.
func Read(file string, passphrase []byte, at time.Time) (*Key, error) {
	text, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer text.Close()
	all, err := openpgp.ReadArmoredKeyRing(text)
	if err != nil {
		return nil, fmt.Errorf("read the key %s, which `gpg --armor --export-secret-keys` writes: %w", file, err)
	}
	if len(all) != 1 || all[0].PrivateKey == nil {
		return nil, fmt.Errorf("%s has %d keys, and is to have one private key", file, len(all))
	}
	if all[0].PrivateKey.Encrypted {
		if err := all[0].DecryptPrivateKeys(passphrase); err != nil {
			return nil, fmt.Errorf("unlock the key %s by its passphrase: %w", file, err)
		}
	}
	k, err := of(all[0], at)
	if err != nil {
		return nil, fmt.Errorf("the key %s: %w", file, err)
	}
	return k, nil
}

func of(entity *openpgp.Entity, at time.Time) (*Key, error) {
	if made := entity.PrimaryKey.CreationTime; at.Before(made) {
		at = made
	}
	found, ok := entity.SigningKey(at)
	if !ok || found.PrivateKey == nil {
		return nil, fmt.Errorf("it cannot sign at %s", at.UTC().Format(time.RFC3339))
	}
	private, ok := found.PrivateKey.PrivateKey.(*rsa.PrivateKey)
	if !ok || private.N.BitLen() < bits {
		return nil, errNotRSA
	}
	return &Key{entity: entity, private: private, signing: found.PrivateKey, at: at}, nil
}

// settings has the library leave out the random notation by which each signature would be another.
func settings(at time.Time) *packet.Config {
	random := false
	return &packet.Config{
		DefaultHash: crypto.SHA256, Time: func() time.Time { return at },
		NonDeterministicSignaturesViaNotation: &random,
	}
}

// Fingerprint is what people compare.
func (k *Key) Fingerprint() string { return hex.EncodeToString(k.entity.PrimaryKey.Fingerprint) }

// Write writes the private key to a file that nobody else reads.
func (k *Key) Write(file string) error {
	text, err := armored(openpgp.PrivateKeyType, func(w io.Writer) error { return k.entity.SerializePrivate(w, settings(k.at)) })
	if err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o600)
}

// Public returns the armored public key, for apt, dnf and gpg.
func (k *Key) Public() ([]byte, error) { return armored(openpgp.PublicKeyType, k.entity.Serialize) }

// PublicPEM returns the public key for cosign and openssl.
func (k *Key) PublicPEM() ([]byte, error) {
	der, err := x509.MarshalPKIXPublicKey(k.private.Public())
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), nil
}

// Detached returns the armored signature of a text.
func (k *Key) Detached(text io.Reader) ([]byte, error) {
	var into bytes.Buffer
	err := openpgp.ArmoredDetachSign(&into, k.entity, text, settings(k.at))
	return append(into.Bytes(), '\n'), err
}

// Packet returns the signature of a text without armor, as rpm packages have it.
func (k *Key) Packet(text io.Reader) ([]byte, error) {
	var into bytes.Buffer
	err := openpgp.DetachSign(&into, k.entity, text, settings(k.at))
	return into.Bytes(), err
}

// Clear returns a text with its signature below it.
func (k *Key) Clear(text []byte) ([]byte, error) {
	var into bytes.Buffer
	w, err := clearsign.Encode(&into, k.signing, settings(k.at))
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(text); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return withChecksum(into.Bytes())
}

// withChecksum gives the signature below a text the checksum that the library omits, and without which
// GnuPG 2.2 takes what follows for more of it.
func withChecksum(signed []byte) ([]byte, error) {
	text, _, ok := bytes.Cut(signed, []byte("-----BEGIN "+openpgp.SignatureType))
	block, _ := clearsign.Decode(signed)
	if !ok || block == nil {
		return nil, errors.New("the library has signed a text in a form that it cannot read")
	}
	signature, err := armored(openpgp.SignatureType, func(w io.Writer) error {
		_, err := io.Copy(w, block.ArmoredSignature.Body)
		return err
	})
	return append(text, signature...), err
}

// Bare returns the RSA signature (PKCS #1 v1.5) of the text's SHA-256, without anything of OpenPGP.
func (k *Key) Bare(text []byte) ([]byte, error) {
	digest := sha256.Sum256(text)
	return rsa.SignPKCS1v15(nil, k.private, crypto.SHA256, digest[:])
}

func armored(kind string, write func(io.Writer) error) ([]byte, error) {
	var into bytes.Buffer
	w, err := armor.Encode(&into, kind, nil)
	if err != nil {
		return nil, err
	}
	if err := write(w); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return append(into.Bytes(), '\n'), nil
}
