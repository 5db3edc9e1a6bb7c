package mesh_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestResourcesWithoutEffectAreProblems(t *testing.T) {
	t.Parallel()
	m := build(t, limiting("old", "default", 2, anyHost)+limiting("young", "default", 1, anyHost)+
		limiting("other", "default", 0, anyHost+", workloadSelector: {labels: {app: a, tier: b}}")+
		limiting("other", "elsewhere", 0, anyHost)+`---
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: first, namespace: default}
spec: {mtls: {mode: STRICT}}
---
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: second, namespace: default}
spec: {mtls: {mode: PERMISSIVE}}
---
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: nobody, namespace: istio-system}
spec: {selector: {matchLabels: {app: a}}, mtls: {mode: PERMISSIVE}}
`)
	problems := m.Problems()
	require.Len(t, problems, 3)
	require.Equal(t, "Sidecar default/young", problems[0].Of.String())
	require.Contains(t, problems[0].Reason, "the older Sidecar default/old is for the same workloads")
	require.Equal(t, "PeerAuthentication default/second", problems[1].Of.String())
	require.Equal(t, "PeerAuthentication istio-system/nobody", problems[2].Of.String())
	require.Equal(t, "spec.selector", problems[2].Path)
}

func TestServicesThatDeclareAPortOfAWorkloadDifferentlyAreAProblem(t *testing.T) {
	t.Parallel()
	const served = ", endpoints: [{address: 10.0.0.1}, {address: 10.0.0.2}]"
	m := build(t, entry("a", "default", "hosts: [a.example.com], ports: [{number: 80, name: http, protocol: HTTP, targetPort: 8080}]"+served)+
		entry("b", "default", "hosts: [b.example.com], ports: [{number: 90, name: tcp, protocol: TCP, targetPort: 8080}]"+served)+
		entry("c", "default", "hosts: [c.example.com], ports: [{number: 80, name: http, protocol: HTTP, targetPort: 8080}]"+served)+
		entry("d", "other", "hosts: [d.example.com], ports: [{number: 80, name: tcp, protocol: TCP, targetPort: 8080}]"+served))
	problems := m.Problems()
	require.Len(t, problems, 1)
	require.Equal(t, "ServiceEntry default/b", problems[0].Of.String())
	require.Contains(t, problems[0].Reason, "port 90 of b.example.com is TCP")
	require.Contains(t, problems[0].Reason, "the older ServiceEntry default/a declares")
}
