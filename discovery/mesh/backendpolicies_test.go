package mesh_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/discovery/configstore"
	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/kinds"
)

// teamText has a service that others do not see, a policy for it, and a Gateway with a route that leads
// there by the host.
const teamText = `
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: pay, namespace: TEAM}
spec: {hosts: [pay.mesh], exportTo: [.], ports: [{number: 443, name: https, protocol: HTTPS}], resolution: STATIC, endpoints: [{address: 10.0.0.1}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: BackendTLSPolicy
metadata: {name: pay, namespace: TEAM}
spec: {targetRefs: [{group: networking.istio.io, kind: Hostname, name: pay.mesh}], validation: {hostname: pay.mesh, wellKnownCACertificates: System}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: gate, namespace: TEAM}
spec: {gatewayClassName: pgmesh, listeners: [{name: http, port: 80, protocol: HTTP}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: pay, namespace: TEAM}
spec: {parentRefs: [{name: gate}], rules: [{backendRefs: [{group: networking.istio.io, kind: Hostname, name: pay.mesh, port: 443}]}]}
`

// A policy stands at the Gateways whose routes lead to its service. Others may have the host, too.
func TestAPolicyStandsAtGatewaysThatLeadToItsService(t *testing.T) {
	t.Parallel()
	store := configstore.New()
	var m *mesh.Mesh
	revision := int64(0)
	apply := func(changes ...kinds.Change) (one, two string) {
		revision++
		m = mesh.Build(store.Apply(kinds.Batch{Revision: revision, Changes: changes}), m)
		all := statedBy(m)
		return all["BackendTLSPolicy one/pay"], all["BackendTLSPolicy two/pay"]
	}
	text := func(team string) string { return strings.ReplaceAll(teamText, "TEAM", team) }
	at := func(team string) string { return `"namespace":"` + team + `","name":"gate"` }

	one, two := apply(fromText(t, text("one")+"---"+text("two"))...)
	require.Contains(t, one, at("one"))
	require.NotContains(t, one, at("two"))
	require.Contains(t, two, at("two"))
	require.NotContains(t, two, at("one"))

	// A service that others see is theirs too, where they have none of their own.
	seen := fromText(t, strings.ReplaceAll(strings.Split(text("one"), "---")[0], "exportTo: [.]", "exportTo: ['*']"))
	own := fromText(t, strings.Split(text("two"), "---")[0])
	one, _ = apply(append(seen, kinds.Change{Key: own[0].Key})...)
	require.Contains(t, one, at("one"))
	require.Contains(t, one, at("two"))
	one, two = apply(own...)
	require.NotContains(t, one, at("two"))
	require.Contains(t, two, at("two"))
}

// A route that may not have a backend does not lead there.
func TestAPolicyDoesNotStandWhereNobodyIsLedToIt(t *testing.T) {
	t.Parallel()
	const text = apiGatewayText + `---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: pay}
spec: {parentRefs: [{name: web}], rules: [{backendRefs: [{name: pay, namespace: bank, port: 80}]}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: BackendTLSPolicy
metadata: {name: pay, namespace: bank}
spec: {targetRefs: [{group: '', kind: Service, name: pay}], validation: {hostname: pay.mesh, wellKnownCACertificates: System}}
`
	const grant = `---
apiVersion: gateway.networking.k8s.io/v1beta1
kind: ReferenceGrant
metadata: {name: edge, namespace: bank}
spec: {from: [{group: gateway.networking.k8s.io, kind: HTTPRoute, namespace: edge}], to: [{group: '', kind: Service}]}
`
	store := configstore.New()
	m := mesh.Build(store.Apply(kinds.Batch{Revision: 1, Changes: fromText(t, text)}), nil)
	require.NotContains(t, statedBy(m)["BackendTLSPolicy bank/pay"], `"name":"web"`)
	m = mesh.Build(store.Apply(kinds.Batch{Revision: 2, Changes: fromText(t, grant)}), m)
	require.Contains(t, statedBy(m)["BackendTLSPolicy bank/pay"], `"name":"web"`)
}
