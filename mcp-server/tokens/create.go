package tokens

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pgmesh/pgmesh/internal/caller"
	"github.com/pgmesh/pgmesh/store"
)

// errScopes says that scopes were not understood.
var errScopes = errors.New("the scopes of the token")

// Create makes a token in somebody's name and returns it: nobody can tell it later. An empty name is that of the database role.
func Create(ctx context.Context, s *store.Store, name string, scopes []string, expires time.Time, by string) (secret string, made store.Token, err error) {
	parsed, err := caller.ParseScopes(scopes)
	if err != nil {
		return "", made, fmt.Errorf("%w: %w", errScopes, err)
	}
	secret = caller.NewSecret()
	hash := caller.HashOf(secret)
	made = store.Token{Name: name, Hash: hash[:], Scopes: caller.Texts(parsed), Created: time.Now(), By: by, Expires: expires}
	return secret, made, s.CreateToken(ctx, made)
}
