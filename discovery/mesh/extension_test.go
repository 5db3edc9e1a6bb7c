package mesh_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/discovery/configstore"
	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/kinds"
)

func meshOf(t *testing.T, documents string) *mesh.Mesh {
	t.Helper()
	parsed, err := kinds.Parser{DefaultNamespace: "shop", Secrets: true}.Parse("test.yaml", []byte(documents))
	require.NoError(t, err)
	var batch kinds.Batch
	for _, d := range parsed {
		batch.Changes = append(batch.Changes, put(d.Resource))
	}
	return mesh.Build(configstore.New().Apply(batch), nil)
}

func registry(namespace, name, rest string) string {
	return resourceOf("Secret", namespace, name, "type: kubernetes.io/dockerconfigjson\nstringData: {.dockerconfigjson: '{\"auths\": {\"a\": {}}}'}\n"+rest)
}

// The secret is one of the extension's own namespace, whatever is written, and for the accounts
// that it names.
func TestWhoPullsModulesWithASecret(t *testing.T) {
	t.Parallel()
	m := meshOf(t, resourceOf("WasmPlugin", "istio-system", "all", "url: a, imagePullSecret: registry")+
		resourceOf("WasmPlugin", "shop", "web", "url: a, imagePullSecret: kubernetes://bank/registry")+
		resourceOf("WasmPlugin", "bank", "file", "url: 'file:///a.wasm', imagePullSecret: registry")+
		registry("istio-system", "registry", "")+registry("shop", "registry", "serviceAccounts: [web]")+registry("bank", "registry", ""))
	pulls := func(namespace, account string) (out []string) {
		p := sidecar(namespace, nil, "10.0.0.1")
		p.ServiceAccount, p.PullsModules = account, true
		for _, s := range m.PullSecrets(p) {
			if s == nil {
				out = append(out, "none")
				continue
			}
			out = append(out, s.Namespace+"/"+s.Name)
		}
		return out
	}
	require.Equal(t, []string{"shop/registry", "istio-system/registry"}, pulls("shop", "web"))
	require.Equal(t, []string{"none", "istio-system/registry"}, pulls("shop", "cart"))
	require.Equal(t, []string{"istio-system/registry"}, pulls("bank", "pay"), "a file is not fetched")
	require.Empty(t, m.SecretsFor(func() *mesh.Proxy { p := router(nil); p.Namespace = "shop"; p.ServiceAccount = "web"; return p }()), "it is no secret of TLS")

	web, cart := sidecar("shop", nil, "10.0.0.1"), sidecar("shop", nil, "10.0.0.2")
	web.ServiceAccount, cart.ServiceAccount = "web", "cart"
	require.Equal(t, []*mesh.Secret{nil, nil}, m.PullSecrets(web), "its agent says nothing, if it has one")
	require.Equal(t, m.Class(web), m.Class(cart))
	web.PullsModules, cart.PullsModules = true, true
	require.NotEqual(t, m.Class(web), m.Class(cart))
	without := meshOf(t, resourceOf("WasmPlugin", "istio-system", "all", "url: a"))
	require.Equal(t, without.Class(web), without.Class(cart))
}

// Envoy shows its configuration. So a secret is for agents alone that are known to take it out, and
// nobody else can say that they do.
func TestAgentsThatPullModulesSaySo(t *testing.T) {
	t.Parallel()
	m := meshOf(t, resourceOf("WasmPlugin", "shop", "web", "url: a, imagePullSecret: registry")+registry("shop", "registry", "")+
		resourceOf("ProxyConfig", "shop", "all", "environmentVariables: {ISTIO_META_PGMESH_WASM_MODULES: agent, ISTIO_META_HTTP10: '1'}"))
	for _, c := range []struct {
		says, text string
		pulls      bool
	}{
		{"PGMESH_WASM_MODULES", "agent", true},
		{"PGMESH_IDENTITY", "agent", false}, // an agent of ours that fetches none
		{"NAME", "a", false},
		{"ISTIO_VERSION", "1.31.0", true},
		{"ISTIO_VERSION", "1.20.0-rc.1", true},
		{"ISTIO_VERSION", "2.0", true},
		{"ISTIO_VERSION", "1.19.9", false}, // it knows no plugins for TCP
		{"ISTIO_VERSION", "1.12.0", false}, // it knows no secrets
		{"ISTIO_VERSION", "0.99.0", false},
		{"ISTIO_VERSION", "unknown", false},
		{"ISTIO_VERSION", "1", false},
	} {
		p, err := mesh.ParseProxy(node(t, "sidecar~10.0.0.1~a.shop~shop.svc", map[string]any{c.says: c.text}))
		require.NoError(t, err)
		require.Equal(t, c.pulls, p.PullsModules, c)
		configured := m.Configured(p)
		require.True(t, configured.HTTP10)
		require.Len(t, m.PullSecrets(configured), 1)
		require.Equal(t, c.pulls, m.PullSecrets(configured)[0] != nil, c)
	}
}

func TestProblemsOfExtensions(t *testing.T) {
	t.Parallel()
	const one, two = "1ef0c9a92b0420cf25f7fe5d481b231464bc88f486ca3b9c83ed5cc21d2f6210", "2ef0c9a92b0420cf25f7fe5d481b231464bc88f486ca3b9c83ed5cc21d2f6210"
	m := meshOf(t, resourceOf("WasmPlugin", "shop", "digest", "url: 'a.example/a@sha256:"+one+"', sha256: "+two)+
		resourceOf("WasmPlugin", "shop", "same", "url: 'a.example/a@sha256:"+one+"', sha256: "+one)+
		resourceOf("TrafficExtension", "shop", "metadata", "wasm: {url: 'http://169.254.169.254/latest', failStrategy: FAIL_OPEN}")+
		resourceOf("TrafficExtension", "shop", "itself", "wasm: {url: 'oci://localhost:5000/a'}")+
		resourceOf("WasmPlugin", "shop", "itself", "url: 'https://[::ffff:127.0.0.1]/a.wasm'")+
		resourceOf("WasmPlugin", "shop", "private", "url: 'https://10.0.0.7/a.wasm'")+
		resourceOf("WasmPlugin", "shop", "pulled", "url: a, imagePullSecret: roots")+resourceOf("Secret", "shop", "roots", "data: {}"))
	found := map[string]string{}
	for _, p := range m.Problems() {
		found[p.Of.String()+" "+p.Path] = p.Reason
	}
	require.Equal(t, map[string]string{
		"WasmPlugin shop/digest spec.sha256": "is not what the url says behind @sha256, and no module is both: the traffic that it is for is refused. Correct one of the two, or leave sha256 out",
		"TrafficExtension shop/metadata spec.wasm.url": "agents fetch nothing from 169.254.169.254, which is not the address of a single machine elsewhere, unless their machines allow it: " +
			"else traffic passes without the module. Have the module where all machines reach it",
		"TrafficExtension shop/itself spec.wasm.url": "agents fetch nothing from the machine itself, unless their machines allow it: else the traffic that it is for is refused. Have the module where all machines reach it",
		"WasmPlugin shop/itself spec.url":            "agents fetch nothing from the machine itself, unless their machines allow it: else the traffic that it is for is refused. Have the module where all machines reach it",
		"WasmPlugin shop/pulled spec.imagePullSecret": "the secret shop/roots names no registry: the traffic that it is for is refused. " +
			"Make it one of the type kubernetes.io/dockerconfigjson",
	}, found)
}
