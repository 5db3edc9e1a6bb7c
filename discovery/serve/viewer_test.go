package serve_test

import (
	"context"
	"slices"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statusv3 "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/discovery/servetest"
)

// seen asks which proxies there are as Istio's tool does, with a machine's certificate. It returns
// their namespaces.
func seen(ctx context.Context, m *servetest.Machine) (namespaces []string, err error) {
	conn := m.Dial()
	defer conn.Close()
	stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).StreamAggregatedResources(ctx)
	if err != nil {
		return nil, err
	}
	_ = stream.Send(&discoveryv3.DiscoveryRequest{Node: &corev3.Node{Id: "sidecar~10.9.9.9~test-1.default~default.svc.cluster.local"}, TypeUrl: "istio.io/debug/syncz"})
	answer, err := stream.Recv()
	if err != nil {
		return nil, err
	}
	for _, r := range answer.GetResources() {
		config := &statusv3.ClientConfig{}
		if err := r.UnmarshalTo(config); err != nil {
			return nil, err
		}
		namespaces = append(namespaces, config.GetNode().GetMetadata().GetFields()["NAMESPACE"].GetStringValue())
	}
	slices.Sort(namespaces)
	return slices.Compact(namespaces), nil
}

func TestAMachineSeesTheProxiesOfItsNamespaceAndOneOfTheRootNamespaceAll(t *testing.T) {
	t.Parallel()
	p := newPKI(t)
	at, _ := servetest.Run(t, p.options())
	in := func(namespace string) *servetest.Machine {
		return p.machine(at, "spiffe://mesh.example/ns/"+namespace+"/sa/default")
	}
	shop, bank, root := in("shop"), in("bank"), in("istio-system")
	for _, m := range []*servetest.Machine{shop, bank} {
		require.Eventually(t, func() bool { _, err := connect(t, m).Recv(); return err == nil }, limit, 10*time.Millisecond, "the trust domain comes with the configuration")
	}
	for _, who := range []struct {
		machine *servetest.Machine
		sees    []string
	}{{shop, []string{"shop"}}, {bank, []string{"bank"}}, {root, []string{"bank", "shop"}}} {
		namespaces, err := seen(t.Context(), who.machine)
		require.NoError(t, err)
		require.Equal(t, who.sees, namespaces)
	}
	_, err := seen(t.Context(), servetest.NewMachine(t, at.XDS.String(), p.root.Root()))
	require.Equal(t, codes.Unauthenticated, status.Code(err), "%v", err)
}
