package mesh_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/discovery/configstore"
	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/kinds"
)

// attendees are proxies of all sorts: two workloads of a shop, one of a bank, which a Sidecar shows
// its own namespace alone, and a gateway.
func attendees() map[string]*mesh.Proxy {
	gate := router(map[string]string{"app": "gate"})
	gate.Namespace, gate.ServiceAccount, gate.Addresses = "edge", "front", []string{"10.0.9.1"}
	proxies := map[string]*mesh.Proxy{
		"web": sidecar("shop", map[string]string{"app": "web"}, "10.0.1.1"), "cart": sidecar("shop", map[string]string{"app": "cart"}, "10.0.1.2"),
		"pay": sidecar("bank", map[string]string{"app": "pay"}, "10.0.2.1"), "gate": gate,
	}
	for _, p := range proxies {
		p.PullsModules = true
	}
	return proxies
}

const onlyTheBank = `
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: own, namespace: bank}
spec: {egress: [{hosts: [./*]}]}
---
`

// audienceOf names the proxies that a resource concerns.
func audienceOf(m *mesh.Mesh, key kinds.Key) string {
	var out []string
	for name, p := range attendees() {
		if slices.Contains(m.Concerning(p), key) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// tlsPolicy is a BackendTLSPolicy for a host.
func tlsPolicy(namespace, name, host string) string {
	return resourceOf("BackendTLSPolicy", namespace, name, "targetRefs: [{group: networking.istio.io, kind: Hostname, name: "+host+"}], validation: {hostname: a.com, wellKnownCACertificates: System}")
}

// trafficPolicy is an XBackendTrafficPolicy for a host.
func trafficPolicy(name, host string) string {
	return resourceOf("XBackendTrafficPolicy", "shop", name, "targetRefs: [{group: networking.istio.io, kind: Hostname, name: "+host+"}], retryConstraint: {}")
}

func resourceOf(kind, namespace, name, rest string) string {
	group := "networking.istio.io/v1"
	switch kind {
	case "XBackendTrafficPolicy":
		group = "gateway.networking.x-k8s.io/v1alpha1"
	case "BackendTLSPolicy":
		group = "gateway.networking.k8s.io/v1"
	case "EnvoyFilter":
		group = "networking.istio.io/v1alpha3"
	case "ProxyConfig":
		group = "networking.istio.io/v1beta1"
	case "AuthorizationPolicy", "RequestAuthentication", "PeerAuthentication":
		group = "security.istio.io/v1"
	case "WasmPlugin", "TrafficExtension":
		group = "extensions.istio.io/v1alpha1"
	case "Telemetry":
		group = "telemetry.istio.io/v1"
	case "MeshConfig", "MeshNetworks":
		group = "core/v1alpha1"
	case "Secret":
		return "apiVersion: v1\nkind: Secret\nmetadata: {name: " + name + ", namespace: " + namespace + "}\n" + rest + "\n---\n"
	}
	return "apiVersion: " + group + "\nkind: " + kind + "\nmetadata: {name: " + name + ", namespace: " + namespace + "}\nspec: {" + rest + "}\n---\n"
}

func TestWhomAResourceConcerns(t *testing.T) {
	t.Parallel()
	const everyone = "cart gate pay web"
	const docker = "type: kubernetes.io/dockerconfigjson\nstringData: {.dockerconfigjson: '{\"auths\": {\"a\": {}}}'}"
	web := entry("web", "shop", "hosts: [web.shop], workloadSelector: {labels: {app: web}}, "+port80) + "---\n"
	own := entry("pay", "bank", "hosts: [pay.bank], endpoints: [{address: 10.0.2.1}], "+port80) + "---\n"
	workload := resourceOf("WorkloadEntry", "shop", "one", "address: 10.0.1.1, labels: {app: web}")
	gateway := resourceOf("Gateway", "edge", "gate", "selector: {app: gate}, servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: ['*']}]")
	for name, c := range map[string]struct {
		documents string
		// wanted has the proxies, by resource.
		wanted map[string]string
	}{
		"who sees a service": {web + workload + own, map[string]string{
			"ServiceEntry shop/web": "cart gate web", "WorkloadEntry shop/one": "cart gate web", "ServiceEntry bank/pay": everyone,
			"Sidecar bank/own": "pay",
		}},
		"entries of one host": {
			entry("a", "shop", "hosts: [x.shop], endpoints: [{address: 10.0.3.1}], "+port80) + "---\n" +
				entry("b", "shop", "hosts: [x.shop], exportTo: ['.'], endpoints: [{address: 10.0.3.2}], "+port80) + "---\n",
			map[string]string{"ServiceEntry shop/a": "cart gate web", "ServiceEntry shop/b": "cart gate web"},
		},
		"who serves what it does not see": {
			entry("web", "shop", "hosts: [web.shop], exportTo: [bank], workloadSelector: {labels: {app: web}}, "+port80) + "---\n" + workload,
			map[string]string{"ServiceEntry shop/web": "web", "WorkloadEntry shop/one": "web"},
		},
		"workloads of no service": {workload, map[string]string{"WorkloadEntry shop/one": ""}},
		"policies of services": {
			web + resourceOf("DestinationRule", "shop", "all", "host: web.shop, trafficPolicy: {loadBalancer: {simple: RANDOM}}") +
				resourceOf("DestinationRule", "shop", "more", "host: web.shop, subsets: [{name: v1, labels: {version: v1}}]") +
				resourceOf("DestinationRule", "shop", "chosen", "host: web.shop, workloadSelector: {matchLabels: {app: cart}}") +
				resourceOf("DestinationRule", "shop", "nothing", "host: nothing.shop"),
			map[string]string{
				"DestinationRule shop/all": "cart gate web", "DestinationRule shop/more": "cart gate web",
				"DestinationRule shop/chosen": "cart", "DestinationRule shop/nothing": "",
			},
		},
		"TLS to services": {
			web + tlsPolicy("shop", "first", "web.shop") + tlsPolicy("shop", "second", "web.shop") + tlsPolicy("bank", "other", "web.shop") + tlsPolicy("shop", "nothing", "nothing.shop"),
			map[string]string{
				"BackendTLSPolicy shop/first": "cart gate web", "BackendTLSPolicy shop/second": "", "BackendTLSPolicy bank/other": "", "BackendTLSPolicy shop/nothing": "",
			},
		},
		"retries and sessions": {
			web + trafficPolicy("first", "web.shop") + trafficPolicy("second", "web.shop") + trafficPolicy("nothing", "nothing.shop") + tlsPolicy("shop", "tls", "web.shop"),
			map[string]string{
				"XBackendTrafficPolicy shop/first": "cart gate web", "XBackendTrafficPolicy shop/second": "", "XBackendTrafficPolicy shop/nothing": "",
				"BackendTLSPolicy shop/tls": "cart gate web",
			},
		},
		"rules": {
			web + gateway + resourceOf("VirtualService", "shop", "web", "hosts: [web.shop], http: [{delegate: {name: part}}]") +
				resourceOf("VirtualService", "shop", "part", "http: [{route: [{destination: {host: web.shop}}]}]") +
				resourceOf("VirtualService", "shop", "unused", "http: [{route: [{destination: {host: web.shop}}]}]") +
				resourceOf("VirtualService", "edge", "in", "hosts: [web.example.com], gateways: [gate], http: [{delegate: {name: rest}}]") +
				resourceOf("VirtualService", "edge", "rest", "http: [{route: [{destination: {host: web.shop}}]}]"),
			map[string]string{
				"VirtualService shop/web": "cart web", "VirtualService shop/part": "cart web", "VirtualService shop/unused": "",
				"VirtualService edge/in": "gate", "VirtualService edge/rest": "gate",
			},
		},
		"gateways": {
			gateway + resourceOf("Gateway", "edge", "other", "selector: {app: other}, servers: [{port: {number: 81, name: http, protocol: HTTP}, hosts: ['*']}]"),
			map[string]string{"Gateway edge/gate": "gate", "Gateway edge/other": ""},
		},
		"a Sidecar that others obey": {resourceOf("Sidecar", "shop", "cart", "workloadSelector: {labels: {app: cart}}, egress: [{hosts: [./*]}]"), map[string]string{"Sidecar shop/cart": "cart"}},
		"what workloads accept": {
			web + resourceOf("PeerAuthentication", "istio-system", "all", "mtls: {mode: STRICT}") + resourceOf("PeerAuthentication", "shop", "shop", "mtls: {mode: STRICT}") +
				resourceOf("PeerAuthentication", "shop", "web", "selector: {matchLabels: {app: web}}, mtls: {mode: STRICT}") + resourceOf("PeerAuthentication", "bank", "bank", "mtls: {mode: STRICT}"),
			map[string]string{
				"PeerAuthentication istio-system/all": everyone, "PeerAuthentication shop/shop": "cart gate web", "PeerAuthentication shop/web": "cart gate web",
				"PeerAuthentication bank/bank": "pay",
			},
		},
		"policies of workloads": {
			resourceOf("AuthorizationPolicy", "istio-system", "all", "") + resourceOf("AuthorizationPolicy", "shop", "web", "selector: {matchLabels: {app: web}}") +
				resourceOf("RequestAuthentication", "shop", "cart", "selector: {matchLabels: {app: cart}}, jwtRules: [{issuer: x, jwks: '{\"keys\": []}'}]") +
				resourceOf("RequestAuthentication", "shop", "empty", "") +
				resourceOf("ProxyConfig", "shop", "web", "selector: {matchLabels: {app: web}}, environmentVariables: {A: b}") + resourceOf("ProxyConfig", "bank", "all", "concurrency: 1"),
			map[string]string{
				"AuthorizationPolicy istio-system/all": everyone, "AuthorizationPolicy shop/web": "web", "RequestAuthentication shop/cart": "cart",
				"RequestAuthentication shop/empty": "", "ProxyConfig shop/web": "web", "ProxyConfig bank/all": "pay",
			},
		},
		"extensions, and what their modules are pulled with": {
			resourceOf("WasmPlugin", "istio-system", "all", "url: a") + resourceOf("WasmPlugin", "shop", "web", "url: a, selector: {matchLabels: {app: web}}, imagePullSecret: registry") +
				resourceOf("TrafficExtension", "bank", "script", "lua: {inlineCode: '-- a'}") + resourceOf("WasmPlugin", "shop", "nobody", "url: a, selector: {matchLabels: {app: x}}, imagePullSecret: other") +
				resourceOf("Secret", "shop", "registry", docker) + resourceOf("Secret", "shop", "other", docker) + resourceOf("Secret", "edge", "unused", docker),
			map[string]string{
				"WasmPlugin istio-system/all": everyone, "WasmPlugin shop/web": "web", "TrafficExtension bank/script": "pay", "WasmPlugin shop/nobody": "",
				"Secret shop/registry": "web", "Secret shop/other": "", "Secret edge/unused": "",
			},
		},
		"patches": {
			resourceOf("EnvoyFilter", "edge", "gate", "configPatches: [{applyTo: CLUSTER, patch: {operation: MERGE, value: {connect_timeout: 1s}}}]") +
				resourceOf("EnvoyFilter", "shop", "unread", "configPatches: [{applyTo: CLUSTER, patch: {operation: MERGE, value: {connect_timeout: soon}}}]"),
			map[string]string{"EnvoyFilter edge/gate": "gate", "EnvoyFilter shop/unread": ""},
		},
		"the mesh": {
			resourceOf("MeshConfig", "istio-system", "mesh", "") +
				resourceOf("MeshNetworks", "istio-system", "all", "networks: {far: {gateways: [{registryServiceName: door.shop, port: 80}], endpoints: [{fromCidr: 10.9.0.0/16}]}}") +
				entry("door", "shop", "hosts: [door.shop], endpoints: [{address: 10.0.8.1}], "+port80) + "---\n" +
				crossing("gate", "istio-system", "near", "") + "---\n",
			map[string]string{
				"MeshConfig istio-system/mesh": everyone, "MeshNetworks istio-system/all": everyone, "ServiceEntry shop/door": everyone,
				"ServiceEntry istio-system/gate": everyone,
			},
		},
		"what no proxy is told": {
			resourceOf("WorkloadGroup", "shop", "web", "template: {serviceAccount: web}"), map[string]string{"WorkloadGroup shop/web": ""},
		},
		"what proxies tell": {
			resourceOf("Telemetry", "istio-system", "all", "") + resourceOf("Telemetry", "shop", "a", "") + resourceOf("Telemetry", "shop", "later", "") +
				resourceOf("Telemetry", "shop", "web", "selector: {matchLabels: {app: web}}") + resourceOf("Telemetry", "istio-system", "web", "selector: {matchLabels: {app: web}}"),
			map[string]string{
				"Telemetry istio-system/all": everyone, "Telemetry shop/a": "cart web", "Telemetry shop/later": "", "Telemetry shop/web": "web",
				"Telemetry istio-system/web": "",
			},
		},
		"secrets": {
			resourceOf("Secret", "edge", "roots", "data: {}"), map[string]string{"Secret edge/roots": "gate"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			documents, err := kinds.Parser{DefaultNamespace: "default", Secrets: true}.Parse("test.yaml", []byte(onlyTheBank+c.documents))
			require.NoError(t, err)
			var batch kinds.Batch
			keys := map[string]kinds.Key{}
			for _, d := range documents {
				batch.Changes = append(batch.Changes, put(d.Resource))
				keys[d.Resource.Key().String()] = d.Resource.Key()
			}
			m := mesh.Build(configstore.New().Apply(batch), nil)
			for of, wanted := range c.wanted {
				require.Contains(t, slices.Collect(maps.Keys(keys)), of)
				require.Equal(t, wanted, audienceOf(m, keys[of]), of)
			}
		})
	}
}
