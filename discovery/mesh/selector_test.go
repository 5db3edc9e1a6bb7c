package mesh_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/discovery/mesh"
)

// chosen is a WorkloadEntry with a label.
func chosen(name, namespace, app, address string) string {
	return "---\napiVersion: networking.istio.io/v1\nkind: WorkloadEntry\nmetadata: {name: " + name + ", namespace: " + namespace +
		"}\nspec: {address: " + address + ", labels: {app: " + app + "}}\n"
}

// A Service of Kubernetes lists its Pods, and has WorkloadEntries for endpoints, too.
func TestAnEntryMaySelectWorkloadsBesideItsEndpoints(t *testing.T) {
	t.Parallel()
	entry := joined("kubernetes.x", "default", "1", "10.0.0.1") +
		chosen("m1", "default", "x", "10.0.1.1") + chosen("m2", "default", "y", "10.0.1.2") + chosen("m3", "other", "x", "10.0.1.3")
	const annotated = "annotations: {mesh.pgmesh.io/workload-selector: app=x, "
	before, after := afterEdit(t, strings.Replace(entry, "annotations: {", annotated, 1), chosen("m2", "default", "x", "10.0.1.2"))
	was, is := before.Scope(sidecar("default", nil)).Service("x.example.com"), after.Scope(sidecar("default", nil)).Service("x.example.com")
	require.Equal(t, "10.0.0.1:80 10.0.1.1:80", servedAt(was))
	require.Equal(t, "10.0.0.1:80 10.0.1.1:80 10.0.1.2:80", servedAt(is))
	require.Same(t, was.Shape, is.Shape, "its endpoints alone are others")
	var made []string
	for _, key := range is.MadeFrom() {
		made = append(made, key.String())
	}
	require.Equal(t, []string{"ServiceEntry default/kubernetes.x", "WorkloadEntry default/m1", "WorkloadEntry default/m2"}, made)
	require.Equal(t, "10.0.0.1:80", servedAt(build(t, entry).Scope(sidecar("default", nil)).Service("x.example.com")), "without the annotation")
}

// Names of certificates may be written with a trust domain that the mesh had before.
func TestNamesOfAFormerTrustDomainAreThoseOfToday(t *testing.T) {
	t.Parallel()
	m := build(t, entryAt("own", "default", "1", "resolution: STATIC, subjectAltNames: [spiffe://old.example/ns/bank/sa/ledger], "+port80)+
		"---\napiVersion: core/v1alpha1\nkind: MeshConfig\nmetadata: {name: mesh, namespace: istio-system}\nspec: {trustDomain: new.example, trustDomainAliases: [old.example, older.example]}\n")
	require.Equal(t, []string{"spiffe://new.example/ns/bank/sa/ledger", "spiffe://old.example/ns/bank/sa/ledger", "spiffe://older.example/ns/bank/sa/ledger"},
		m.Identities(m.Scope(sidecar("default", nil)).Service("x.example.com")))
}

// Gateways that have a name are at the addresses that it resolves to.
func TestNamesOfGatewaysAreResolved(t *testing.T) {
	t.Parallel()
	m := build(t, networks("far: {gateways: [{address: gateway.example.com, port: 15443}, {address: 192.0.2.9, port: 15443}]}"))
	require.Equal(t, []string{"gateway.example.com"}, m.GatewayNames())
	require.Len(t, m.NetworkGateways("far"), 2)
	resolved := m.WithGatewayAddresses(map[string][]string{"gateway.example.com": {"192.0.2.1", "192.0.2.2"}, "other.example.com": {"192.0.2.3"}})
	require.NotSame(t, m, resolved)
	var at []string
	for _, g := range resolved.NetworkGateways("far") {
		at = append(at, g.Address)
	}
	require.Equal(t, []string{"192.0.2.1", "192.0.2.2", "192.0.2.9"}, at)
	require.Equal(t, []string{"gateway.example.com"}, resolved.GatewayNames(), "it is resolved again")
	require.True(t, resolved.IsNetworkGateway("192.0.2.2", 15443))
	require.Same(t, resolved, resolved.WithGatewayAddresses(map[string][]string{"other.example.com": {"192.0.2.3"}, "gateway.example.com": {"192.0.2.1", "192.0.2.2"}}))
	require.Equal(t, at[0], resolved.WithTrust(mesh.Trust{Revoked: []string{"ns/a/sa/b"}}).NetworkGateways("far")[0].Address, "whatever else changes")
}
