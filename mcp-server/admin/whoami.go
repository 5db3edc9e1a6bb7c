package admin

import (
	"context"

	"github.com/pgmesh/pgmesh/internal/caller"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

// WhoAmI tells callers what the server knows of them. It needs no database.
func (s *Service) WhoAmI(ctx context.Context, _ *adminv1.WhoAmIRequest) (*adminv1.WhoAmIResponse, error) {
	who := caller.From(ctx)
	return &adminv1.WhoAmIResponse{Identity: who.Identity(), Scopes: caller.Texts(who.Scopes())}, nil
}
