package push_test

import (
	"fmt"
	"net"
	"slices"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pgmesh/pgmesh/discovery/push"
	"github.com/pgmesh/pgmesh/internal/testbench/envoytest"
)

// The loss of a proxy's inbound listener is a problem as long as it lasts.
func TestAListenerThatAProxyRefusesIsAProblem(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp4", "0.0.0.0:0") // Envoy cannot listen here
	require.NoError(t, err)
	defer taken.Close()
	b := newBench()
	inboundOn := func(port int) {
		b.apply(t, fmt.Sprintf(`
apiVersion: core/v1alpha1
kind: MeshConfig
metadata: {name: mesh, namespace: istio-system}
spec: {proxyListenPort: %d, proxyInboundListenPort: %d}
`, envoytest.Port(t), port))
	}
	inboundOn(taken.Addr().(*net.TCPAddr).Port)
	metadata, err := structpb.NewStruct(map[string]any{"NAMESPACE": "shop"})
	require.NoError(t, err)
	envoytest.Start(t, following(t, b.listen(t).Target(), &corev3.Node{Id: "sidecar~10.0.0.2~web.shop~shop.svc.cluster.local", Cluster: "web", Metadata: metadata}))

	known := standing{bench: b}
	refused := func() (found []push.Problem) {
		known.ask()
		return slices.DeleteFunc(slices.Clone(known.problems), func(p push.Problem) bool { return p.Code != push.Refused })
	}
	require.Eventually(t, func() bool { return len(refused()) == 1 }, 30*time.Second, 5*time.Millisecond)
	p := refused()[0]
	require.Equal(t, "Proxy shop/web.shop virtualInbound", p.Of.String()+" "+p.Path)
	require.Contains(t, p.Reason, "Address already in use")
	require.Contains(t, p.Reason, "unless the proxy has an older one, nothing comes in")

	inboundOn(int(envoytest.Port(t)))
	require.Eventually(t, func() bool { return len(refused()) == 0 }, 30*time.Second, 5*time.Millisecond)
}
