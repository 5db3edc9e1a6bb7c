package admit

import (
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/identity"
)

// FuzzNode has strangers describe themselves. Whatever a node says, the proxy has the namespace and
// the service account that its certificate proves, or is refused.
func FuzzNode(f *testing.F) {
	proved := identity.Workload{TrustDomain: "mesh.example", Namespace: "shop", ServiceAccount: "cart"}
	seed := func(id string, metadata map[string]any) {
		m, err := structpb.NewStruct(metadata)
		require.NoError(f, err)
		bytes, err := proto.Marshal(&corev3.Node{Id: id, Metadata: m})
		require.NoError(f, err)
		f.Add(bytes)
	}
	seed("sidecar~10.0.0.1~a.shop~shop.svc.cluster.local", nil)
	seed("router~10.0.0.1~a.bank~bank.svc.cluster.local", map[string]any{"NAMESPACE": "shop", "SERVICE_ACCOUNT": "cart"})
	seed("sidecar~10.0.0.1~a~bank.svc", map[string]any{"NAMESPACE": nil})
	seed("sidecar~10.0.0.1~a~x", map[string]any{"NAMESPACE": []any{"bank"}, "SERVICE_ACCOUNT": 7})
	seed("sidecar~10.0.0.1~a~bank.example", map[string]any{"NAMESPACE": "", "SERVICE_ACCOUNT": ""})
	seed("sidecar~10.0.0.1~a~b", map[string]any{"NAMESPACE": "bank"})
	f.Fuzz(func(t *testing.T, bytes []byte) {
		var node corev3.Node
		if proto.Unmarshal(bytes, &node) != nil || contradiction("spiffe://mesh.example/ns/shop/sa/cart", proved, &node) != nil {
			return
		}
		p, err := mesh.ParseProxy(withIdentity(&node, proved))
		if err != nil {
			return
		}
		require.Equal(t, "shop", p.Namespace)
		require.Equal(t, "cart", p.Texts["SERVICE_ACCOUNT"])
	})
}
