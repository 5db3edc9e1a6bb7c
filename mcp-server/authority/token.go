package authority

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pgmesh/pgmesh/internal/identity"
	"github.com/pgmesh/pgmesh/internal/jointoken"
	"github.com/pgmesh/pgmesh/mcp-server/seal"
	"github.com/pgmesh/pgmesh/store"
)

// Ensure returns the roots of a mesh, the one that signs first, and makes its authority if there is none yet.
func Ensure(ctx context.Context, cfg Config) ([]*x509.Certificate, error) {
	cfg.Signs = true
	a, err := New(cfg)
	if err != nil {
		return nil, err
	}
	known, err := a.ensure(ctx)
	if err != nil {
		return nil, err
	}
	return known.roots, nil
}

// Reseal encrypts with the key that seals what an older one has encrypted of the authorities, and returns how many there are and were.
func Reseal(ctx context.Context, s *store.Store, keys *seal.Keys) (done, all int, err error) {
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

// TokenForServer makes a join token for a server of a program, in somebody's name, which counts once.
func TokenForServer(ctx context.Context, s *store.Store, roots []*x509.Certificate, program identity.Program, name string, lifetime time.Duration, by string) (jointoken.Token, error) {
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
	return token, s.CreateJoinToken(ctx, store.JoinToken{
		Name: name, Hash: hash[:], Program: string(program), MaxUses: 1, Expires: time.Now().Add(lifetime), By: by,
	})
}
