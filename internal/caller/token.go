package caller

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"time"
)

// TokenHash is what the server stores of a token. The token cannot be computed from it, because a
// token is 256 random bits.
type TokenHash [sha256.Size]byte

// secretPrefix lets secret scanners find leaked tokens.
const secretPrefix = "pgmesh_"

// NewSecret generates a token.
func NewSecret() string {
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // never fails
	return secretPrefix + base64.RawURLEncoding.EncodeToString(secret)
}

// HashOf returns the hash of a token.
func HashOf(secret string) TokenHash { return sha256.Sum256([]byte(secret)) }

// Token describes a token, without its secret.
type Token struct {
	Name    string
	Scopes  []Scope
	Expires time.Time // zero: never
	Revoked time.Time // zero: not revoked
}

// Tokens looks up tokens.
type Tokens interface {
	// Find returns the token with a hash, or [ErrUnknownToken]. Any other error means that tokens
	// cannot be checked now.
	Find(ctx context.Context, hash TokenHash) (Token, error)
	// Held is Find without asking anyone: it answers from memory and does not block.
	Held(hash TokenHash) (Token, error)
	// Used records that a token was presented.
	Used(hash TokenHash)
}

// ErrUnknownToken is returned for a token that does not exist.
var ErrUnknownToken = errors.New("the token is not known: it was deleted, or never given out by this mesh")

// NoTokens is a Tokens that has none.
type NoTokens struct{}

// Find returns ErrUnknownToken.
func (NoTokens) Find(context.Context, TokenHash) (Token, error) { return Token{}, ErrUnknownToken }

// Held returns ErrUnknownToken.
func (NoTokens) Held(TokenHash) (Token, error) { return Token{}, ErrUnknownToken }

// Used does nothing.
func (NoTokens) Used(TokenHash) {}
