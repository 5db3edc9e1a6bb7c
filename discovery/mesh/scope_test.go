package mesh_test

import (
	"fmt"
	"net"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/discovery/mesh"
)

func hostPort(e *mesh.Endpoint) string {
	return net.JoinHostPort(e.Address, strconv.FormatUint(uint64(e.Port), 10))
}

func entry(name, namespace, rest string) string {
	return fmt.Sprintf(`---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: %s, namespace: %s}
spec: {resolution: STATIC, %s}
`, name, namespace, rest)
}

func rule(name, namespace, rest string) string {
	return fmt.Sprintf(`---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: %s, namespace: %s}
spec: {%s}
`, name, namespace, rest)
}

const port80 = "ports: [{number: 80, name: http, protocol: HTTP}]"

func TestAHostBelongsToOneNamespaceTheClientsOwnFirst(t *testing.T) {
	t.Parallel()
	m := build(t, entry("a", "first", "hosts: [x.example.com], "+port80)+entry("b", "second", "hosts: [x.example.com], "+port80))
	require.Equal(t, "first", m.Scope(sidecar("third", nil)).Service("x.example.com").Namespace)
	require.Equal(t, "second", m.Scope(sidecar("second", nil)).Service("x.example.com").Namespace)
}

func TestEntriesForOneHostAddTheirPortsAndEndpoints(t *testing.T) {
	t.Parallel()
	m := build(t,
		entry("a", "default", "hosts: [x.example.com], "+port80+", endpoints: [{address: 10.0.0.1}]")+
			entry("b", "default", "hosts: [x.example.com], ports: [{number: 81, name: more, protocol: TCP}], endpoints: [{address: 10.0.0.2}]"))
	scope := m.Scope(sidecar("default", nil))
	require.Len(t, scope.Services, 1)
	require.Len(t, scope.Services[0].Ports, 2)
	require.Len(t, scope.Services[0].Endpoints, 2)
	require.Len(t, scope.Egress[0].Services, 2)
}

func TestDestinationRulesOfTheClientComeFirst(t *testing.T) {
	t.Parallel()
	services := entry("x", "service", "hosts: [x.example.com], "+port80)
	root := rule("root", "istio-system", "host: '*.example.com'")
	service := rule("service", "service", "host: x.example.com")
	client := rule("client", "client", "host: '*'")
	for _, c := range []struct{ rules, from, want string }{
		{root, "client", "root"},
		{root + service, "client", "service"},
		{root + service + client, "client", "client"},
		{root + service + client, "elsewhere", "service"},
		{root + service, "istio-system", "service"},
		{root + rule("own", "istio-system", "host: x.example.com, exportTo: ['.']") + service, "istio-system", "own"},
		{rule("private", "service", "host: x.example.com, exportTo: ['.']"), "client", ""},
		{rule("shared", "service", "host: x.example.com, exportTo: [client]"), "client", "shared"},
		{rule("wide", "service", "host: '*.com'") + rule("narrow", "service", "host: '*.example.com'"), "client", "narrow"},
	} {
		p := sidecar(c.from, nil)
		got := build(t, services+c.rules).Scope(p).DestinationRule(p, "x.example.com")
		if c.want == "" {
			require.Nil(t, got)
			continue
		}
		require.NotNil(t, got, "%s from %s", c.rules, c.from)
		require.Equal(t, c.want, got.Resource.Name, "%s from %s", c.rules, c.from)
	}
}

func TestRulesForOneHostMerge(t *testing.T) {
	t.Parallel()
	m := build(t, entry("x", "default", "hosts: [x.default.svc.cluster.local], "+port80)+
		rule("a", "default", "host: x, subsets: [{name: v1, labels: {v: '1'}}]")+
		rule("b", "default", "host: x.default.svc.cluster.local, trafficPolicy: {loadBalancer: {simple: RANDOM}}, subsets: [{name: v1}, {name: v2}]"))
	p := sidecar("default", nil)
	got := m.Scope(p).DestinationRule(p, "x.default.svc.cluster.local")
	require.Len(t, got.From, 2)
	require.Len(t, got.Spec.GetSubsets(), 2)
	require.Equal(t, map[string]string{"v": "1"}, got.Spec.GetSubsets()[0].GetLabels())
	require.NotNil(t, got.Spec.GetTrafficPolicy())
}

func TestARuleForWorkloadsIsOnlyForThem(t *testing.T) {
	t.Parallel()
	m := build(t, entry("x", "default", "hosts: [x.example.com], "+port80)+
		rule("all", "default", "host: x.example.com")+
		rule("some", "default", "host: x.example.com, workloadSelector: {matchLabels: {app: a}}"))
	some, other := sidecar("default", map[string]string{"app": "a"}), sidecar("default", nil)
	require.Equal(t, "some", m.Scope(some).DestinationRule(some, "x.example.com").Resource.Name)
	require.Equal(t, "all", m.Scope(other).DestinationRule(other, "x.example.com").Resource.Name)
	require.Equal(t, "all", m.Scope(some).InboundDestinationRule("x.example.com").Resource.Name)
}

func TestAProxyServesWhileItsWorkloadDrains(t *testing.T) {
	t.Parallel()
	m := build(t, entry("x", "default", "hosts: [x.example.com], "+port80+", endpoints: [{address: 10.0.0.1, labels: {mesh.pgmesh.io/health: draining}}]"))
	require.Len(t, m.Targets(sidecar("default", nil, "10.0.0.1")), 1)
}

func TestTargetsAreTheProxysOwnEndpointsInItsNamespace(t *testing.T) {
	t.Parallel()
	m := build(t,
		entry("mine", "default", "hosts: [mine.example.com], ports: [{number: 80, name: http, protocol: HTTP, targetPort: 8080}], endpoints: [{address: 10.0.0.1}]")+
			entry("squatter", "other", "hosts: [theirs.example.com], "+port80+", endpoints: [{address: 10.0.0.1}]"))
	targets := m.Targets(sidecar("default", nil, "10.0.0.9", "10.0.0.1"))
	require.Len(t, targets, 1)
	require.Equal(t, "mine.example.com", targets[0].Service.Hostname)
	require.Equal(t, uint32(8080), targets[0].Number)
	require.Empty(t, m.Targets(sidecar("default", nil, "10.0.0.2")))
}
