package tokens

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/internal/caller"
	"github.com/pgmesh/pgmesh/internal/kit/stamp"
	"github.com/pgmesh/pgmesh/mcp-server/failure"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/identity/callers"
)

// Service is the API for administrators.
type Service struct {
	adminv1.UnimplementedTokenServiceServer

	callers *callers.Store
	cache   *Cache
	log     *slog.Logger
}

// NewService returns the API of the callers of a store.
func NewService(s *callers.Store, c *Cache, log *slog.Logger) *Service {
	return &Service{callers: s, cache: c, log: log}
}

// Register adds the API to a server.
func (s *Service) Register(r grpc.ServiceRegistrar) { adminv1.RegisterTokenServiceServer(r, s) }

// CreateToken creates a token.
func (s *Service) CreateToken(ctx context.Context, req *adminv1.CreateTokenRequest) (*adminv1.CreateTokenResponse, error) {
	who := caller.From(ctx)
	var expires time.Time
	if t := req.GetExpiresAt(); t != nil {
		expires = t.AsTime()
	}
	secret, made, err := Create(ctx, s.callers, req.GetName(), req.GetScopes(), expires, who.Author())
	if err != nil {
		return nil, s.fail(err)
	}
	s.cache.Read(ctx) // so that the token works at once
	s.log.Info("made a token", "token", made.Name, "scopes", made.Scopes, "by", who.Identity())
	return &adminv1.CreateTokenResponse{Secret: secret, Token: tokenMessage(made)}, nil
}

// ListTokens lists all tokens.
func (s *Service) ListTokens(ctx context.Context, _ *adminv1.ListTokensRequest) (*adminv1.ListTokensResponse, error) {
	rows, err := s.callers.Tokens(ctx)
	if err != nil {
		return nil, s.fail(err)
	}
	resp := &adminv1.ListTokensResponse{}
	for _, row := range rows {
		resp.Tokens = append(resp.Tokens, tokenMessage(row))
	}
	return resp, nil
}

// RevokeToken revokes a token.
func (s *Service) RevokeToken(ctx context.Context, req *adminv1.RevokeTokenRequest) (*adminv1.RevokeTokenResponse, error) {
	who := caller.From(ctx)
	revoked, err := s.callers.RevokeToken(ctx, req.GetName(), who.Author())
	if err != nil {
		return nil, s.fail(err)
	}
	if !revoked {
		return nil, status.Errorf(codes.NotFound, "there is no token %q in force: list them", req.GetName())
	}
	s.cache.Read(ctx)
	s.log.Info("revoked a token", "token", req.GetName(), "by", who.Identity())
	return &adminv1.RevokeTokenResponse{}, nil
}

func (s *Service) fail(err error) error {
	invalid, ok := errors.AsType[*store.InvalidError](err)
	var blocked *store.BlockedError
	switch {
	case ok:
		return status.Error(codes.InvalidArgument, invalid.Error())
	case errors.Is(err, errScopes):
		return status.Error(codes.InvalidArgument, err.Error())
	case errors.Is(err, callers.ErrTokenExists):
		return status.Error(codes.AlreadyExists, err.Error())
	case errors.As(err, &blocked):
		return status.Error(codes.Aborted, err.Error())
	}
	return failure.Status(s.log, "tokens", err)
}

func tokenMessage(t callers.Token) *adminv1.Token {
	return &adminv1.Token{
		Name: t.Name, Scopes: t.Scopes, CreatedAt: stamp.Of(t.Created), CreatedBy: t.By, ExpiresAt: stamp.Of(t.Expires),
		RevokedAt: stamp.Of(t.Revoked), RevokedBy: t.Revoker, UsedAt: stamp.Of(t.Used),
	}
}
