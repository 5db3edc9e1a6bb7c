package tokens

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pgmesh/pgmesh/internal/caller"
	"github.com/pgmesh/pgmesh/store/identity/callers"
)

// errScopes says that scopes could not be parsed.
var errScopes = errors.New("the scopes of the token")

// Create creates a token in the name of by, and returns its secret, which is not stored. An empty
// name means the database role.
func Create(ctx context.Context, s *callers.Store, name string, scopes []string, expires time.Time, by string) (secret string, made callers.Token, err error) {
	parsed, err := caller.ParseScopes(scopes)
	if err != nil {
		return "", made, fmt.Errorf("%w: %w", errScopes, err)
	}
	secret = caller.NewSecret()
	hash := caller.HashOf(secret)
	made = callers.Token{Name: name, Hash: hash[:], Scopes: caller.Texts(parsed), Created: time.Now(), By: by, Expires: expires}
	return secret, made, s.CreateToken(ctx, made)
}
