package push_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/discovery/push"
)

// Routes follow right behind the endpoints of a cluster, unless Envoy has to ask for secrets, too,
// before it uses the cluster.
func TestAClusterWarmsUpWithSecrets(t *testing.T) {
	t.Parallel()
	for name, tls := range map[string]struct {
		settings string
		warms    bool
	}{
		"plaintext":            {"{mode: DISABLE}", false},
		"the mesh's":           {"{mode: ISTIO_MUTUAL}", false},
		"automatic":            {"", false},
		"roots of the mesh":    {"{mode: SIMPLE, credentialName: 'configmap://team-0/roots'}", true},
		"nothing to ask for":   {"{mode: SIMPLE, insecureSkipVerify: true}", false},
		"files of the machine": {"{mode: SIMPLE, caCertificates: /etc/roots.pem}", false}, // which Envoy reads by itself
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench()
			rule := ""
			if tls.settings != "" {
				rule = `---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: s0, namespace: team-0}
spec: {host: s0.team-0.svc.cluster.local, trafficPolicy: {tls: ` + tls.settings + `}}
`
			}
			b.apply(t, meshService(0, 1, 0)+rule)
			cluster := b.connect(t, node("10.0.0.1", "team-0"), true).Snapshot().Sets[push.ClusterType].Get("outbound|80||s0.team-0.svc.cluster.local")
			require.NotNil(t, cluster)
			require.Equal(t, tls.warms, cluster.Warms)
		})
	}
}
