package authority

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pgmesh/pgmesh/identity"
	"github.com/pgmesh/pgmesh/identity/jointoken"
	"github.com/pgmesh/pgmesh/mcp-server/identity/seal"
	"github.com/pgmesh/pgmesh/store/identity/members"
	"github.com/pgmesh/pgmesh/store/identity/trust"
)

// Ensure returns the mesh's roots, the active one first, and creates the authority if there is none
// yet.
func Ensure(ctx context.Context, cfg Config) ([]*x509.Certificate, error) {
	cfg.Signs = true
	a, err := New(cfg)
	if err != nil {
		return nil, err
	}
	state, err := a.ensure(ctx)
	if err != nil {
		return nil, err
	}
	return state.roots, nil
}

// Reseal encrypts the authorities' keys that an older key sealed with the current one. It returns
// how many it encrypted, and how many there are.
func Reseal(ctx context.Context, s *trust.Store, keys *seal.Keys) (done, all int, err error) {
	rows, err := s.AuthoritiesWithKeys(ctx)
	if err != nil {
		return 0, 0, err
	}
	for _, row := range rows {
		if row.SealedKey == "" {
			continue
		}
		all++
		if keys.Current(row.SealedKey) {
			continue
		}
		key, err := keys.Open(place(row.Fingerprint), row.SealedKey)
		if err != nil {
			return done, all, fmt.Errorf("the key of authority %d: %w", row.ID, err)
		}
		if _, err := s.ResealAuthority(ctx, row.ID, row.SealedKey, keys.Seal(place(row.Fingerprint), key)); err != nil {
			return done, all, err
		}
		done++
	}
	return done, all, nil
}

// TokenForServer creates a join token for one server, in the name of by.
func TokenForServer(ctx context.Context, s *members.Store, roots []*x509.Certificate, program identity.Program, name string, lifetime time.Duration, by string) (jointoken.Token, error) {
	if !slices.Contains(identity.Programs, program) {
		return jointoken.Token{}, fmt.Errorf("%q is no server that joins a mesh: write one of %v", program, identity.Programs)
	}
	if lifetime <= 0 {
		return jointoken.Token{}, errors.New("a join token has to expire: give it an hour or so")
	}
	token, err := jointoken.New(roots...)
	if err != nil {
		return token, err
	}
	hash := token.Hash()
	return token, s.CreateJoinToken(ctx, members.JoinToken{
		Name: name, Hash: hash[:], Program: string(program), MaxUses: 1, Expires: time.Now().Add(lifetime), By: by,
	})
}
