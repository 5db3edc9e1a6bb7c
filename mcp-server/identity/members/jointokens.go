package members

import (
	"cmp"
	"context"
	"crypto/rand"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/identity/jointoken"
	"github.com/pgmesh/pgmesh/internal/caller"
	"github.com/pgmesh/pgmesh/internal/kit/stamp"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
	"github.com/pgmesh/pgmesh/store/identity/members"
)

// defaultTokenLifetime is the default lifetime of a join token, which is made when a machine is
// about to join.
const defaultTokenLifetime = time.Hour

// CreateJoinToken creates a join token and returns its secret, once.
func (s *Service) CreateJoinToken(ctx context.Context, req *adminv1.CreateJoinTokenRequest) (*adminv1.CreateJoinTokenResponse, error) {
	who := caller.From(ctx)
	if err := mayMake(who, req.GetProgram(), req.GetNamespace()); err != nil {
		return nil, s.fail(err)
	}
	roots, err := s.roots(ctx)
	if err != nil {
		return nil, s.fail(err)
	}
	token, err := jointoken.New(roots...)
	if err != nil {
		return nil, status.Error(codes.FailedPrecondition, err.Error())
	}
	hash := token.Hash()
	made := members.JoinToken{
		Name: cmp.Or(req.GetName(), randomName()), Hash: hash[:], Namespace: req.GetNamespace(), ServiceAccount: req.GetServiceAccount(), WorkloadGroup: req.GetWorkloadGroup(),
		Program: req.GetProgram(), MaxUses: int(cmp.Or(req.GetMaxUses(), 1)), Created: time.Now(), By: who.Author(), Expires: time.Now().Add(defaultTokenLifetime), State: "valid",
	}
	if t := req.GetExpiresAt(); t != nil {
		made.Expires = t.AsTime()
	}
	if err := s.joined.CreateJoinToken(ctx, made); err != nil {
		return nil, s.fail(err)
	}
	s.log.Info("made a join token", "token", made.Name, "namespace", made.Namespace, "service_account", made.ServiceAccount,
		"workload_group", made.WorkloadGroup, "program", made.Program, "uses", made.MaxUses, "expires", made.Expires, "by", who.Identity())
	return &adminv1.CreateJoinTokenResponse{Secret: token.Text(), Token: tokenMessage(made)}, nil
}

// mayMake returns an error unless the caller may create and revoke tokens of a namespace, or of
// servers.
func mayMake(who *caller.Caller, program, namespace string) error {
	if program != "" {
		return who.RequireUnlimited(caller.Admin)
	}
	return who.RequireWithin(caller.Write, namespace, "make or revoke join tokens")
}

// randomName returns a name for a token without one.
func randomName() string { return "join-" + strings.ToLower(rand.Text()[:8]) }

// ListJoinTokens lists the tokens that the caller may see.
func (s *Service) ListJoinTokens(ctx context.Context, req *adminv1.ListJoinTokensRequest) (*adminv1.ListJoinTokensResponse, error) {
	namespaces, err := caller.From(ctx).Readable(req.GetNamespaces(), "see join tokens")
	if err != nil {
		return nil, s.fail(err)
	}
	rows, err := s.joined.JoinTokens(ctx, namespaces)
	if err != nil {
		return nil, s.fail(err)
	}
	resp := &adminv1.ListJoinTokensResponse{}
	for _, row := range rows {
		resp.Tokens = append(resp.Tokens, tokenMessage(row))
	}
	return resp, nil
}

// RevokeJoinToken revokes a token.
func (s *Service) RevokeJoinToken(ctx context.Context, req *adminv1.RevokeJoinTokenRequest) (*adminv1.RevokeJoinTokenResponse, error) {
	who := caller.From(ctx)
	namespaces, all := who.Within(caller.Write)
	if !all && len(namespaces) == 0 {
		return nil, s.fail(mayMake(who, "", ""))
	}
	if all {
		namespaces = nil
	}
	revoked, err := s.joined.RevokeJoinTokenAmong(ctx, req.GetName(), namespaces, who.Unlimited(caller.Admin), who.Author())
	if err != nil {
		return nil, s.fail(err)
	}
	if !revoked {
		return nil, status.Errorf(codes.NotFound, "there is no join token %q in force that you may revoke: list them", req.GetName())
	}
	s.log.Info("revoked a join token", "token", req.GetName(), "by", who.Identity())
	return &adminv1.RevokeJoinTokenResponse{}, nil
}

func tokenMessage(t members.JoinToken) *adminv1.JoinToken {
	return &adminv1.JoinToken{
		Name: t.Name, Namespace: t.Namespace, ServiceAccount: t.ServiceAccount, WorkloadGroup: t.WorkloadGroup, Program: t.Program,
		Uses: int32(t.Uses), MaxUses: int32(t.MaxUses), State: t.State, CreatedAt: stamp.Of(t.Created), CreatedBy: t.By, ExpiresAt: stamp.Of(t.Expires),
		RevokedAt: stamp.Of(t.Revoked), RevokedBy: t.Revoker, UsedAt: stamp.Of(t.Used),
	}
}
