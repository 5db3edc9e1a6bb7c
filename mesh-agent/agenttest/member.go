package agenttest

import (
	"path/filepath"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"

	"github.com/pgmesh/pgmesh/mesh-agent/identity/jointest"
)

// StartMember starts an agent that is a member of a mesh without anything in it, and waits until
// its Envoy takes connections.
func StartMember(t testing.TB, args ...string) (a *Proc, state string) {
	t.Helper()
	return StartMemberOf(t, EmptyMesh(t), args...)
}

// EmptyMesh starts the discovery of a mesh without anything in it.
func EmptyMesh(t testing.TB, register ...func(grpc.ServiceRegistrar)) *jointest.Discovery {
	t.Helper()
	return jointest.New(t, "mesh.example", time.Hour, append(register, func(r grpc.ServiceRegistrar) {
		discoveryv3.RegisterAggregatedDiscoveryServiceServer(r, empty{})
	})...)
}

// StartMemberOf is StartMember for the mesh of a discovery.
func StartMemberOf(t testing.TB, d *jointest.Discovery, args ...string) (a *Proc, state string) {
	t.Helper()
	state = filepath.Join(ShortFolder(t), "state")
	a = StartSecure(t, append([]string{
		"--discovery", d.Address, "--token-file", TokenFile(t, d.Token("shop", "cart", 1, 0).Text()),
		"--state-dir", state, "--status", "", "--envoy-log-level", "info",
	}, args...)...)
	a.Await(t, "is a member of the mesh")
	a.Await(t, "starting workers")
	return a, state
}

// empty is a discovery of a mesh without anything in it.
type empty struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer
}

func (empty) DeltaAggregatedResources(stream discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) error {
	for {
		request, err := stream.Recv()
		if err != nil {
			return err
		}
		if request.GetResponseNonce() != "" {
			continue
		}
		if err := stream.Send(&discoveryv3.DeltaDiscoveryResponse{TypeUrl: request.GetTypeUrl(), Nonce: "1", SystemVersionInfo: "1"}); err != nil {
			return err
		}
	}
}
