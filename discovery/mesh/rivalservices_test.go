package mesh_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/discovery/mesh"
)

// entryAt is a ServiceEntry created in some minute.
func entryAt(name, namespace, minute, rest string) string {
	return "---\napiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: " + name + ", namespace: " + namespace +
		", creationTimestamp: '2026-01-01T00:0" + minute + ":00Z'}\nspec: {hosts: [x.example.com], " + rest + "}\n"
}

const port81 = "ports: [{number: 81, name: more, protocol: HTTP}]"

func TestGatewaysTakeTheOldestServiceOfAHost(t *testing.T) {
	t.Parallel()
	m := build(t, entryAt("older", "elsewhere", "1", "resolution: STATIC, "+port80)+entryAt("own", "edge", "2", "resolution: STATIC, "+port81))
	require.Equal(t, "elsewhere", m.Scope(router(edge)).Service("x.example.com").Namespace)
	require.Equal(t, "edge", m.Scope(sidecar("edge", nil)).Service("x.example.com").Namespace)
}

func TestGatewaysHaveOnlyTheServicesThatTheyAreShown(t *testing.T) {
	t.Parallel()
	m := build(t, entryAt("hidden", "edge", "1", "exportTo: [elsewhere], resolution: STATIC, "+port80)+`---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: to-it, namespace: edge}
spec: {hosts: [x.example.com], http: [{route: [{destination: {host: x.example.com}}]}]}
`)
	require.Nil(t, m.Scope(router(edge)).Service("x.example.com"))
	require.NotNil(t, m.Scope(sidecar("edge", nil)).Service("x.example.com"), "as in Istio, a rule leads sidecars there")
}

func TestTheOldestServiceOfANamespaceStandsForItsOthersWhereRulesLead(t *testing.T) {
	t.Parallel()
	m := build(t, entryAt("hidden", "a", "1", "exportTo: ['.'], resolution: STATIC, "+port80)+entryAt("shown", "a", "2", "resolution: STATIC, "+port80)+
		entryAt("other", "b", "3", "resolution: STATIC, "+port81)+`---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: to-it, namespace: c}
spec: {hosts: [y.example.com], http: [{route: [{destination: {host: x.example.com}}]}]}
`+limiting("limited", "c", 0, "egress: [{hosts: ['./*']}]"))
	require.Equal(t, "b", m.Scope(sidecar("c", nil)).Service("x.example.com").Namespace)
}

func TestAnyEntryOfAHostNamesWhoMayServeIt(t *testing.T) {
	t.Parallel()
	m := build(t, entryAt("one", "default", "1", "resolution: STATIC, subjectAltNames: [one.example.com], "+port80)+
		entryAt("two", "default", "2", "resolution: STATIC, subjectAltNames: [two.example.com], "+port81)+entryAt("silent", "default", "3", "resolution: STATIC, "+port80))
	require.Equal(t, []string{"one.example.com", "two.example.com"}, m.Identities(m.Scope(sidecar("default", nil)).Service("x.example.com")))
}

func TestAnotherEntrysEndpointMayBeWhereClientsConnectTo(t *testing.T) {
	t.Parallel()
	m := build(t, entryAt("passed-on", "default", "1", "resolution: NONE, ports: [{number: 7000, name: tcp, protocol: TCP}]")+
		entryAt("fixed", "default", "2", "resolution: STATIC, ports: [{number: 7000, name: tcp, protocol: TCP}], endpoints: [{address: 10.0.0.7}]"))
	require.NotEqual(t, m.Class(sidecar("other", nil, "10.0.0.1")), m.Class(sidecar("other", nil, "10.0.0.7")))
}

func TestOnlyOneNameServesAPort(t *testing.T) {
	t.Parallel()
	workloads := `---
apiVersion: networking.istio.io/v1
kind: WorkloadEntry
metadata: {name: a, namespace: default}
spec: {address: a.example.net, serviceAccount: a, labels: {app: x}}
---
apiVersion: networking.istio.io/v1
kind: WorkloadEntry
metadata: {name: b, namespace: default}
spec: {address: b.example.net, labels: {app: x}}
`
	m := build(t, entryAt("x", "default", "1", "resolution: DNS_ROUND_ROBIN, "+port80+", workloadSelector: {labels: {app: x}}")+workloads)
	require.Equal(t, []string{"a.example.net:80"}, served(m))

	revoked := m.WithTrust(mesh.Trust{Revoked: []string{"ns/default/sa/a"}})
	require.Equal(t, []string{"a.example.net:80", "b.example.net:80"}, served(revoked), "nothing is sent to the first")
	require.Equal(t, []string{"a.example.net:80"}, served(revoked.WithTrust(mesh.Trust{})))
}

func served(m *mesh.Mesh) (out []string) {
	for _, e := range m.Services()[0].Endpoints {
		out = append(out, hostPort(e))
	}
	return out
}
