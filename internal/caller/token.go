package caller

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"time"
)

// TokenHash is what is kept of a token. From it the token cannot be found, for that is as random as the hash is long.
type TokenHash [sha256.Size]byte

// secretPrefix lets scanners find tokens where they should not be.
const secretPrefix = "pgmesh_"

// NewSecret makes up a token.
func NewSecret() string {
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // never fails
	return secretPrefix + base64.RawURLEncoding.EncodeToString(secret)
}

// HashOf returns what is kept of a token.
func HashOf(secret string) TokenHash { return sha256.Sum256([]byte(secret)) }

// Token is what is known of a token.
type Token struct {
	Name    string
	Scopes  []Scope
	Expires time.Time // never if zero
	Revoked time.Time // not if zero
}

// Tokens knows the tokens.
type Tokens interface {
	// Find returns the token with a hash, or [ErrUnknownToken]. Another error says that this cannot be told now.
	Find(ctx context.Context, hash TokenHash) (Token, error)
	// Held is Find that does not ask anybody: it answers from what is known already.
	Held(hash TokenHash) (Token, error)
	// Used notes that a token was presented.
	Used(hash TokenHash)
}

// ErrUnknownToken says that there is no such token.
var ErrUnknownToken = errors.New("the token is not known: it was deleted, or never given out by this mesh")

// NoTokens knows no token.
type NoTokens struct{}

// Find returns ErrUnknownToken.
func (NoTokens) Find(context.Context, TokenHash) (Token, error) { return Token{}, ErrUnknownToken }

// Held returns ErrUnknownToken.
func (NoTokens) Held(TokenHash) (Token, error) { return Token{}, ErrUnknownToken }

// Used does nothing.
func (NoTokens) Used(TokenHash) {}
