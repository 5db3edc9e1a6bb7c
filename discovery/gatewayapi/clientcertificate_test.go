package gatewayapi_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/discovery/gatewayapi"
	"github.com/pgmesh/pgmesh/kinds"
)

// With a certificate that a Gateway cannot have, connections that are to show it fail, and it says why.
func TestAGatewayShowsOnlyACertificateThatItMayHave(t *testing.T) {
	t.Parallel()
	const grant = `---
apiVersion: gateway.networking.k8s.io/v1beta1
kind: ReferenceGrant
metadata: {name: g, namespace: other}
spec: {from: [{group: gateway.networking.k8s.io, kind: Gateway, namespace: edge}], to: [{group: '', kind: Secret, name: gate}]}
`
	for name, c := range map[string]struct{ named, beside, shows, resolved string }{
		"its own":                    {"name: gate", "", "kubernetes-gateway://edge/gate", "True:ResolvedRefs"},
		"one that is not there":      {"name: gone", "", "kubernetes-gateway://edge/gone", "False:InvalidClientCertificateRef"},
		"one of another namespace":   {"name: gate, namespace: other", grant, "kubernetes-gateway://other/gate", "True:ResolvedRefs"},
		"one that nobody lets it":    {"name: gate, namespace: other", "", "invalid://", "False:RefNotPermitted"},
		"another one than it may":    {"name: more, namespace: other", grant, "invalid://", "False:RefNotPermitted"},
		"what is no secret":          {"name: gate, kind: ConfigMap", "", "invalid://", "False:InvalidClientCertificateRef"},
		"a secret of another group":  {"name: gate, group: example.com", "", "invalid://", "False:InvalidClientCertificateRef"},
		"what may not be, by either": {"name: gate, kind: ConfigMap, namespace: other", "", "invalid://", "False:InvalidClientCertificateRef"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			resources := parsed(t, gatewayText("tls: {backend: {clientCertificateRef: {"+c.named+"}}}, listeners: [{name: http, port: 80, protocol: HTTP}]")+c.beside)
			g := gatewayapi.ReadGateway(resources["Gateway web"], nil, gatewayapi.ReadClasses(slices.Values([]*kinds.Resource(nil))), grantsOf(resources))
			require.Equal(t, c.shows, g.Shows)
			require.Equal(t, c.shows == "invalid://", len(g.Secrets()) == 0, "what it may not have it is not given")
			status := g.Statuses(gatewayapi.Beside{Attached: func(gatewayapi.At) int { return 0 }, Known: func(s gatewayapi.Secret) bool { return s.Name == "gate" }})
			require.Contains(t, told(status[g.Resource.Key()].Conditions), "ResolvedRefs="+c.resolved)
			require.Contains(t, told(status[g.Resource.Key()].Conditions), "Accepted=True:Accepted")
			require.True(t, g.Listeners[0].Served(), "what needs no certificate is served")
		})
	}
}
