package rollout

import (
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/push"
	"github.com/pgmesh/pgmesh/internal/ads"
	rolloutv1 "github.com/pgmesh/pgmesh/proto/pgmesh/rollout/v1"
)

// describe says who a proxy is.
func (p Proxies) describe(s *ads.Stream, m push.Member) *rolloutv1.Description {
	protocol := "sotw"
	if s.Incremental() {
		protocol = "delta"
	}
	of := m.Proxy
	d := &rolloutv1.Description{
		Node: s.Node().GetId(), Proxy: of.ID, Namespace: of.Namespace, ServiceAccount: of.ServiceAccount, Role: string(of.Type), Labels: of.Labels,
		Locality: mesh.LocalityText(of.Locality), Network: of.Network, Addresses: of.Addresses, Envoy: mesh.EnvoyVersion(s.Node()), Agent: of.Agent,
		Protocol: protocol, Connected: timestamppb.New(s.Since()),
	}
	if ends := p.CertificateEnds(s); !ends.IsZero() {
		d.CertificateEnds = timestamppb.New(ends)
	}
	return d
}
