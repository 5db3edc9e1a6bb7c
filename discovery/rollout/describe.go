package rollout

import (
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/push"
	"github.com/pgmesh/pgmesh/internal/ads"
	rolloutv1 "github.com/pgmesh/pgmesh/proto/pgmesh/rollout/v1"
)

// describe says who a proxy is.
func describe(s *ads.Stream, m push.Member) *rolloutv1.Description {
	protocol := "sotw"
	if s.Incremental() {
		protocol = "delta"
	}
	p := m.Proxy
	return &rolloutv1.Description{
		Node: s.Node().GetId(), Proxy: p.ID, Namespace: p.Namespace, ServiceAccount: p.ServiceAccount, Role: string(p.Type), Labels: p.Labels,
		Locality: mesh.LocalityText(p.Locality), Network: p.Network, Addresses: p.Addresses, Envoy: mesh.EnvoyVersion(s.Node()), Agent: p.Version,
		Protocol: protocol, Connected: timestamppb.New(s.Since()),
	}
}
