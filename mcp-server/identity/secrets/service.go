// Package secrets is the API that lists secrets: everything about them except private values.
package secrets

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/identity/credential"
	"github.com/pgmesh/pgmesh/internal/caller"
	"github.com/pgmesh/pgmesh/internal/kit/stamp"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-server/identity/seal"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
	mcpv1 "github.com/pgmesh/pgmesh/proto/pgmesh/mcp/v1"
	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/secrets"
)

// Service is the API.
type Service struct {
	adminv1.UnimplementedSecretServiceServer

	secrets *secrets.Store
	lent    Lent
	log     *slog.Logger
}

// Lent tells what registries have for gateways: what anyone may see of it. Of no namespaces it tells
// everything.
type Lent func(namespaces []string) ([]*kinds.Resource, error)

// NewService returns the API of a store, and of registries; lent may be nil.
func NewService(s *store.Store, lent Lent, log *slog.Logger) *Service {
	return &Service{secrets: secrets.New(s), lent: lent, log: log}
}

// Register adds the API to a server.
func (s *Service) Register(r grpc.ServiceRegistrar) { adminv1.RegisterSecretServiceServer(r, s) }

// ListSecrets lists the secrets of some namespaces.
func (s *Service) ListSecrets(ctx context.Context, req *adminv1.ListSecretsRequest) (*adminv1.ListSecretsResponse, error) {
	namespaces, err := visible(caller.From(ctx), req.GetNamespaces())
	if err != nil {
		return nil, caller.StatusOf(err)
	}
	list, err := s.secrets.List(ctx, namespaces)
	if err != nil {
		return nil, s.fail(err)
	}
	resp := &adminv1.ListSecretsResponse{}
	for _, secret := range list {
		resp.Secrets = append(resp.Secrets, infoOf(secret))
	}
	if s.lent == nil {
		return resp, nil
	}
	lent, err := s.lent(namespaces)
	if err != nil {
		return nil, s.fail(err)
	}
	for _, r := range lent {
		resp.Secrets = append(resp.Secrets, infoOfLent(r))
	}
	slices.SortStableFunc(resp.Secrets, func(a, b *adminv1.SecretInfo) int {
		return cmp.Or(strings.Compare(a.GetNamespace(), b.GetNamespace()), strings.Compare(a.GetName(), b.GetName()))
	})
	return resp, nil
}

// visible returns the namespaces that a request is about: those that it names, or else those of the
// caller's scopes. Nil means all.
func visible(who *caller.Caller, named []string) ([]string, error) {
	if len(named) == 0 {
		var all []string
		for _, s := range who.SecretScopes() {
			if s.Namespaces == nil {
				return nil, nil
			}
			all = append(all, s.Namespaces...)
		}
		if len(all) == 0 {
			return nil, who.RequireSecrets("")
		}
		return all, nil
	}
	for _, n := range named {
		if err := who.RequireSecrets(n); err != nil {
			return nil, err
		}
	}
	return named, nil
}

func (s *Service) fail(err error) error {
	if store.Temporary(err) || errors.Is(err, context.DeadlineExceeded) {
		return status.Error(codes.Unavailable, "the database cannot be read now: come again")
	}
	s.log.Error("cannot list secrets", "error", err)
	return status.Error(codes.Internal, "cannot list secrets: see the server's log")
}

// infoOf describes a secret, with the host names of its certificate.
func infoOf(s *secrets.Secret) *adminv1.SecretInfo {
	info := &adminv1.SecretInfo{
		Namespace: s.Namespace, Name: s.Name, Type: s.Type, Labels: s.Labels, Author: s.Author,
		Keys: slices.Sorted(maps.Keys(s.Data)), CreatedAt: stamp.Of(s.Created), UpdatedAt: stamp.Of(s.Updated),
		NotBefore: stamp.Of(s.NotBefore), NotAfter: stamp.Of(s.NotAfter), Encrypted: true, ServiceAccounts: s.ServiceAccounts,
	}
	public := map[string]string{}
	for name, value := range s.Data {
		if credential.IsPublic(name) {
			public[name] = value
		} else {
			info.Encrypted = info.Encrypted && seal.IsSealed(value)
		}
	}
	if data, err := seal.None.Read(s.Namespace, s.Name, public); err == nil {
		info.Names = credential.Names(data)
	}
	return info
}

// infoOfLent describes a secret of a registry.
func infoOfLent(r *kinds.Resource) *adminv1.SecretInfo {
	spec, _ := r.Spec.Message().(*mcpv1.Secret)
	from, until := credential.Validity(spec.GetData())
	return &adminv1.SecretInfo{
		Namespace: r.Namespace, Name: r.Name, Type: spec.GetType(), Labels: r.Labels, Origin: r.Origin(),
		Keys: slices.Sorted(maps.Keys(spec.GetData())), Names: credential.Names(spec.GetData()), CreatedAt: stamp.Of(r.CreateTime),
		NotBefore: stamp.Of(from), NotAfter: stamp.Of(until), ServiceAccounts: spec.GetServiceAccounts(),
	}
}
