package mesh_test

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/discovery/mesh"
)

const selecting = `
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: x, namespace: default}
spec:
  hosts: [x.example.com]
  http: [{match: [{sourceLabels: {app: a}}], route: [{destination: {host: x.example.com}}]}]
`

func TestClassesTellApartWhatTranslationDoes(t *testing.T) {
	t.Parallel()
	m := build(t, selecting+entry("served", "default", "hosts: [x.example.com], "+port80+", endpoints: [{address: 10.0.0.7}]"))
	base := func() *mesh.Proxy {
		p := sidecar("default", map[string]string{"app": "b", "pod": "1"})
		p.Interception, p.Domain, p.ID = mesh.InterceptionRedirect, "default.svc.cluster.local", "one"
		return p
	}
	same := base()
	same.ID, same.Addresses, same.Labels = "two", []string{"10.0.0.2"}, map[string]string{"app": "b", "pod": "2"}
	require.Equal(t, m.Class(base()), m.Class(same))
	for name, change := range map[string]func(*mesh.Proxy){
		"type":         func(p *mesh.Proxy) { p.Type = mesh.Router },
		"namespace":    func(p *mesh.Proxy) { p.Namespace = "other" },
		"domain":       func(p *mesh.Proxy) { p.Domain = "other" },
		"interception": func(p *mesh.Proxy) { p.Interception = mesh.InterceptionNone },
		"labels":       func(p *mesh.Proxy) { p.Labels = map[string]string{"app": "a"} },
		"families":     func(p *mesh.Proxy) { p.Addresses = []string{"fd00::1"} },
		"targets":      func(p *mesh.Proxy) { p.Addresses = []string{"10.0.0.7"} },
		"privileges":   func(p *mesh.Proxy) { p.Unprivileged = true },
		"resolver":     func(p *mesh.Proxy) { p.Resolver = netip.MustParseAddrPort("127.0.0.1:15054") },
		"dns":          func(p *mesh.Proxy) { p.DNSCapture = true },
		"certificate":  func(p *mesh.Proxy) { p.Identity.FromAgent = true },
		"proxy port":   func(p *mesh.Proxy) { p.HTTPProxyPort = 15080 },
		"idle timeout": func(p *mesh.Proxy) { p.IdleTimeout = 1 },
	} {
		p := base()
		change(p)
		require.NotEqual(t, m.Class(base()), m.Class(p), name)
	}
}

func TestAddressesTellApartProxiesWhoseSidecarHasThemListenThere(t *testing.T) {
	t.Parallel()
	m := build(t, limiting("s", "listening", 0, "ingress: [{port: {number: 80, name: http, protocol: HTTP}}]")+limiting("s", "other", 0, anyHost))
	require.NotEqual(t, m.Class(sidecar("listening", nil, "10.0.0.1")), m.Class(sidecar("listening", nil, "10.0.0.2")))
	require.Equal(t, m.Class(sidecar("other", nil, "10.0.0.1")), m.Class(sidecar("other", nil, "10.0.0.2")))
}

func TestAProxyAtAnAddressThatClientsConnectToIsAClassOfItsOwn(t *testing.T) {
	t.Parallel()
	m := build(t, `
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: x, namespace: other}
spec:
  hosts: [x.example.com]
  resolution: NONE
  ports: [{number: 7000, name: tcp, protocol: TCP}]
  workloadSelector: {labels: {app: x}}
---
apiVersion: networking.istio.io/v1
kind: WorkloadEntry
metadata: {name: x, namespace: other}
spec: {address: 10.0.0.7, labels: {app: x}}
`)
	require.Equal(t, m.Class(sidecar("default", nil, "10.0.0.1")), m.Class(sidecar("default", nil, "10.0.0.2")))
	require.NotEqual(t, m.Class(sidecar("default", nil, "10.0.0.1")), m.Class(sidecar("default", nil, "10.0.0.7")))
}
