// Package tenancy is the API that separates namespaces in a shared mesh: their quotas, and the
// owners of hosts.
package tenancy

import (
	"context"
	"errors"
	"log/slog"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/internal/caller"
	"github.com/pgmesh/pgmesh/internal/kit/stamp"
	"github.com/pgmesh/pgmesh/mcp-server/failure"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/tenancy"
)

// Service is the API.
type Service struct {
	adminv1.UnimplementedTenancyServiceServer

	tenancy *tenancy.Store
	log     *slog.Logger
}

// NewService returns the API of a store.
func NewService(s *store.Store, log *slog.Logger) *Service {
	return &Service{tenancy: tenancy.New(s), log: log}
}

// Register adds the API to a server.
func (s *Service) Register(r grpc.ServiceRegistrar) { adminv1.RegisterTenancyServiceServer(r, s) }

// ListQuotas lists quotas and their use.
func (s *Service) ListQuotas(ctx context.Context, req *adminv1.ListQuotasRequest) (*adminv1.ListQuotasResponse, error) {
	namespaces, err := caller.From(ctx).Readable(req.GetNamespaces(), "see the quotas")
	if err != nil {
		return nil, caller.StatusOf(err)
	}
	list, err := s.tenancy.Quotas(ctx, namespaces)
	if err != nil {
		return nil, s.fail(err)
	}
	resp := &adminv1.ListQuotasResponse{}
	for _, q := range list {
		resp.Quotas = append(resp.Quotas, &adminv1.Quota{
			Namespace: q.Namespace, Resources: q.Resources, MaxResources: q.MaxResources, Bytes: q.Bytes, MaxBytes: q.MaxBytes, ResourceMaxBytes: q.ResourceMaxBytes,
			WrittenToday: q.WrittenToday, MaxDailyBytes: q.MaxDailyBytes,
		})
	}
	return resp, nil
}

// SetQuota sets the quota of a namespace, or the default for all.
func (s *Service) SetQuota(ctx context.Context, req *adminv1.SetQuotaRequest) (*adminv1.SetQuotaResponse, error) {
	who := caller.From(ctx)
	set := tenancy.QuotaSettings{MaxResources: req.MaxResources, MaxBytes: req.MaxBytes, ResourceMaxBytes: req.ResourceMaxBytes, MaxDailyBytes: req.MaxDailyBytes}
	for name, value := range map[string]*int64{
		"max_resources": set.MaxResources, "max_bytes": set.MaxBytes, "resource_max_bytes": set.ResourceMaxBytes, "max_daily_bytes": set.MaxDailyBytes,
	} {
		if value != nil && *value < 0 {
			return nil, status.Errorf(codes.InvalidArgument, "%s: %d is less than nothing; 0 is what holds by default", name, *value)
		}
	}
	if set == (tenancy.QuotaSettings{}) {
		return nil, status.Error(codes.InvalidArgument, "say what to set: max_resources, max_bytes, resource_max_bytes or max_daily_bytes")
	}
	if err := s.tenancy.SetQuota(ctx, req.GetNamespace(), set, who.Author()); err != nil {
		return nil, s.fail(err)
	}
	s.log.Info("set a quota", "namespace", req.GetNamespace(), "by", who.Identity())
	return &adminv1.SetQuotaResponse{}, nil
}

// ListHostGrants lists which namespaces own which hosts and addresses.
func (s *Service) ListHostGrants(ctx context.Context, req *adminv1.ListHostGrantsRequest) (*adminv1.ListHostGrantsResponse, error) {
	namespaces, err := caller.From(ctx).Readable(req.GetNamespaces(), "see the hosts")
	if err != nil {
		return nil, caller.StatusOf(err)
	}
	list, err := s.tenancy.HostGrants(ctx, namespaces)
	if err != nil {
		return nil, s.fail(err)
	}
	resp := &adminv1.ListHostGrantsResponse{}
	for _, g := range list {
		resp.Grants = append(resp.Grants, &adminv1.HostGrant{Pattern: g.Pattern, Namespace: g.Namespace, GrantedBy: g.By, GrantedAt: stamp.Of(g.At)})
	}
	return resp, nil
}

// GrantHosts makes a namespace the owner of hosts.
func (s *Service) GrantHosts(ctx context.Context, req *adminv1.GrantHostsRequest) (*adminv1.GrantHostsResponse, error) {
	if err := requirePatterns(req.GetPatterns()); err != nil {
		return nil, err
	}
	who := caller.From(ctx)
	foreign, err := s.tenancy.GrantHosts(ctx, req.GetNamespace(), req.GetPatterns(), who.Author())
	if err != nil {
		return nil, s.fail(err)
	}
	s.log.Info("granted hosts", "namespace", req.GetNamespace(), "hosts", req.GetPatterns(), "by", who.Identity())
	return &adminv1.GrantHostsResponse{Foreign: foreign}, nil
}

// RevokeHosts revokes grants of hosts.
func (s *Service) RevokeHosts(ctx context.Context, req *adminv1.RevokeHostsRequest) (*adminv1.RevokeHostsResponse, error) {
	if err := requirePatterns(req.GetPatterns()); err != nil {
		return nil, err
	}
	who := caller.From(ctx)
	missing, err := s.tenancy.RevokeHosts(ctx, req.GetPatterns(), who.Author())
	switch {
	case err != nil:
		return nil, s.fail(err)
	case missing != "":
		return nil, status.Errorf(codes.NotFound, "nobody was granted %q: nothing was revoked; mcp-client hosts lists what was granted", missing)
	}
	s.log.Info("revoked hosts", "hosts", req.GetPatterns(), "by", who.Identity())
	return &adminv1.RevokeHostsResponse{}, nil
}

func requirePatterns(patterns []string) error {
	if len(patterns) == 0 {
		return status.Error(codes.InvalidArgument, "patterns: name a host, *.example.com for all below it, a range of addresses, or *")
	}
	return nil
}

// GetHostOwner returns the namespace that owns a host.
func (s *Service) GetHostOwner(ctx context.Context, req *adminv1.GetHostOwnerRequest) (*adminv1.GetHostOwnerResponse, error) {
	if _, err := caller.From(ctx).Readable(nil, "see the hosts"); err != nil {
		return nil, caller.StatusOf(err)
	}
	if req.GetHost() == "" {
		return nil, status.Error(codes.InvalidArgument, "host: name a host or an address")
	}
	namespace, owned, err := s.tenancy.HostOwner(ctx, req.GetHost())
	if err != nil {
		return nil, s.fail(err)
	}
	return &adminv1.GetHostOwnerResponse{Owned: owned, Namespace: namespace}, nil
}

func (s *Service) fail(err error) error {
	if invalid, ok := errors.AsType[*store.InvalidError](err); ok {
		return status.Error(codes.InvalidArgument, invalid.Error())
	}
	return failure.Status(s.log, "quotas or owners of hosts", err)
}
