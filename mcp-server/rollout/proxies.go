package rollout

import (
	"context"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/pgmesh/pgmesh/internal/caller"
	"github.com/pgmesh/pgmesh/internal/kit/stamp"
	"github.com/pgmesh/pgmesh/mcp-server/failure"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
	"github.com/pgmesh/pgmesh/store/rollout"
)

// shown are the states in which proxies are shown.
var shown = []string{rollout.Synced, rollout.Sending, rollout.Refused, rollout.Silent, rollout.Away}

// ListProxies lists the proxies of all discoveries.
func (s *Service) ListProxies(ctx context.Context, req *adminv1.ListProxiesRequest) (*adminv1.ListProxiesResponse, error) {
	namespaces, err := caller.From(ctx).Readable(req.GetNamespaces(), "see the proxies")
	if err != nil {
		return nil, caller.StatusOf(err)
	}
	if req.GetState() != "" && !slices.Contains(shown, req.GetState()) {
		return nil, status.Errorf(codes.InvalidArgument, "state: a proxy is never %q: give one of %s", req.GetState(), strings.Join(shown, ", "))
	}
	list, err := s.store.List(ctx, rollout.Filter{Namespaces: namespaces, Proxy: req.GetProxy(), State: req.GetState()})
	if err != nil {
		return nil, failure.Status(s.log, "which revision proxies run", err)
	}
	resp := &adminv1.ListProxiesResponse{}
	for _, p := range list {
		resp.Proxies = append(resp.Proxies, proxyOf(p))
	}
	return resp, nil
}

func proxyOf(p rollout.Listed) *adminv1.RunningProxy {
	of := &adminv1.RunningProxy{
		Namespace: p.Namespace, Proxy: p.Proxy, Node: p.Node, Role: p.Role, ServiceAccount: p.ServiceAccount, Labels: p.Labels,
		Locality: p.Locality, Network: p.Network, Addresses: p.Addresses, Envoy: p.Envoy, Agent: p.Agent, Protocol: p.Protocol,
		Discovery: p.Discovery, Server: p.Server, ConnectedAt: stamp.Of(p.Connected), State: p.State, Sent: p.Sent, Runs: p.Runs, Refused: p.Refused,
		ChangedAt: stamp.Of(p.Changed), GoneAt: stamp.Of(p.Gone),
	}
	if p.CertificateEnds != nil {
		of.CertificateEndsAt = stamp.Of(*p.CertificateEnds)
	}
	if p.Took != nil {
		of.Took = durationpb.New(*p.Took)
	}
	return of
}
