package inspect_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pgmesh/pgmesh/discovery/push"
)

const strictButForOnePort = `
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: mesh, namespace: istio-system}
spec: {mtls: {mode: STRICT}}
---
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: vm}
spec: {selector: {matchLabels: {app: web}}, portLevelMtls: {8080: {mode: PERMISSIVE}}}
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: nobody}
spec: {}
`

func TestAuthorizationIsOfTheLabelsOfAProxy(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.apply(web)
	b.apply(strictButForOnePort)
	labelled := node("sidecar", "10.0.0.1", "vm-1")
	labels, err := structpb.NewStruct(map[string]any{"LABELS": map[string]any{"app": "web"}})
	require.NoError(t, err)
	labelled.Metadata = labels
	b.connect(labelled, push.ClusterType).accept(1)
	b.connect(node("sidecar", "10.0.0.2", "vm-2"), push.ClusterType).accept(1)
	type answer struct {
		MutualTLS map[string]any `json:"mutual_tls"`
		Others    string
		Policies  []map[string]any
	}
	one := shown[answer](b, "/debug/authorization?proxy=vm-1")
	require.Equal(t, map[string]any{
		"mode": "STRICT", "policy": "istio-system/mesh", "certificate": false,
		"ports": []any{map[string]any{"port": 8080.0, "mode": "PERMISSIVE", "policy": "shop/vm"}},
	}, one.MutualTLS)
	require.Equal(t, "refused", one.Others)
	require.Equal(t, []map[string]any{{"action": "ALLOW", "policy": "shop/nobody", "rules": []any{}}}, one.Policies)
	require.NotContains(t, shown[answer](b, "/debug/authorization?proxy=vm-2").MutualTLS, "ports")
	b.refuses(http.StatusBadRequest, map[string]string{"/debug/authorization": "say of which proxy, as in /debug/authorization?proxy=ID; /debug/proxies lists them\n"})
}
