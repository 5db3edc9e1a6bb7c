// Package jointoken encodes and parses the tokens with which machines and servers join a mesh.
//
// A token holds a secret and the fingerprints (pins) of the mesh's roots; the database keeps the
// secret's hash. The pins tell the joiner whom to trust with the secret before it trusts anyone
// else: a server whose certificate leads to one of those roots.
package jointoken

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
)

// Prefix begins every token, so that secret scanners find leaked ones.
const Prefix = "pgmesh_join_"

const (
	secretSize = 32
	pinSize    = 32
	maxPins    = 8
)

// Token is a join token.
type Token struct {
	secret [secretSize]byte
	pins   [][pinSize]byte
}

// Hash is the SHA-256 of a token's secret, which the database keeps.
type Hash [sha256.Size]byte

// New creates a token for a mesh with these roots.
func New(roots ...*x509.Certificate) (Token, error) {
	if len(roots) == 0 || len(roots) > maxPins {
		return Token{}, fmt.Errorf("a join token names one to %d roots, and there are %d", maxPins, len(roots))
	}
	var t Token
	_, _ = rand.Read(t.secret[:]) // never fails
	for _, root := range roots {
		t.pins = append(t.pins, pinOf(root))
	}
	return t, nil
}

func pinOf(root *x509.Certificate) [pinSize]byte { return sha256.Sum256(root.RawSubjectPublicKeyInfo) }

var errShape = errors.New("this is not a whole join token: it begins with " + Prefix + " and is one line; mcp-client token create makes one")

// Parse reads a token. Its error does not quote the text, which may be a secret.
func Parse(text string) (Token, error) {
	rest, ok := strings.CutPrefix(strings.TrimSpace(text), Prefix)
	if !ok {
		return Token{}, errShape
	}
	all, err := base64.RawURLEncoding.Strict().DecodeString(rest)
	pins := len(all) - secretSize
	if err != nil || pins < pinSize || pins%pinSize != 0 || pins/pinSize > maxPins {
		return Token{}, errShape
	}
	t := Token{secret: [secretSize]byte(all)}
	for pin := range slices.Chunk(all[secretSize:], pinSize) {
		t.pins = append(t.pins, [pinSize]byte(pin))
	}
	return t, nil
}

// Text encodes the token, secret included.
func (t Token) Text() string {
	all := slices.Clone(t.secret[:])
	for _, pin := range t.pins {
		all = append(all, pin[:]...)
	}
	return Prefix + base64.RawURLEncoding.EncodeToString(all)
}

// Hash returns the hash of the token's secret.
func (t Token) Hash() Hash { return sha256.Sum256(t.secret[:]) }

// String hides the secret, so that a token can be logged.
func (t Token) String() string { return Prefix + "…" }

// GoString hides the secret, too.
func (t Token) GoString() string { return t.String() }

// LogValue hides the secret, too.
func (t Token) LogValue() slog.Value { return slog.StringValue(t.String()) }

// Trusts reports whether root is one of the token's pinned roots.
func (t Token) Trusts(root *x509.Certificate) bool {
	pin := pinOf(root)
	return slices.ContainsFunc(t.pins, func(p [pinSize]byte) bool { return bytes.Equal(p[:], pin[:]) })
}
