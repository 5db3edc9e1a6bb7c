package mesh_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func replace(text, old, by string) string { return strings.ReplaceAll(text, old, by) }

func TestGatewaysOfARuleHaveOneName(t *testing.T) {
	t.Parallel()
	spec := onlyRule(t, build(t, `
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: x, namespace: default}
spec:
  hosts: [x.example.com]
  gateways: [mesh, short, there/one, old.form, older.form.svc.cluster.local]
  http: [{match: [{gateways: [short]}], route: [{destination: {host: x.example.com}}]}]
  tcp: [{match: [{gateways: [short]}], route: [{destination: {host: x.example.com}}]}]
  tls: [{match: [{gateways: [short], sniHosts: [x.example.com]}], route: [{destination: {host: x.example.com}}]}]
`))
	require.Equal(t, []string{"mesh", "default/short", "there/one", "form/old", "form/older"}, spec.GetGateways())
	require.Equal(t, []string{"default/short"}, spec.GetHttp()[0].GetMatch()[0].GetGateways())
	require.Equal(t, []string{"default/short"}, spec.GetTcp()[0].GetMatch()[0].GetGateways())
	require.Equal(t, []string{"default/short"}, spec.GetTls()[0].GetMatch()[0].GetGateways())
}
