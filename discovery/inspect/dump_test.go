package inspect_test

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"

	adminv3 "github.com/envoyproxy/go-control-plane/envoy/admin/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pgmesh/pgmesh/discovery/push"
	"github.com/pgmesh/pgmesh/internal/testbench/certtest"
)

// dump reads a dump as the tools for Envoy's own do.
func (b *bench) dump(path string) *adminv3.ConfigDump {
	b.t.Helper()
	_, text := b.get(path)
	d := &adminv3.ConfigDump{}
	require.NoError(b.t, protojson.Unmarshal([]byte(text), d), text)
	return d
}

func TestADumpIsInTheFormOfEnvoysOwn(t *testing.T) {
	t.Parallel()
	b, _ := startWithProxy(t)
	d := b.dump("/debug/config_dump?proxy=vm-1")
	var types []string
	for _, c := range d.GetConfigs() {
		types = append(types, strings.TrimPrefix(c.GetTypeUrl(), "type.googleapis.com/envoy.admin.v3."))
	}
	require.Equal(t, []string{
		"ClustersConfigDump", "ListenersConfigDump", "RoutesConfigDump", "EndpointsConfigDump", "SecretsConfigDump", "EcdsConfigDump",
	}, types)
	require.Equal(t, "type.googleapis.com/istio.networking.nds.v1.NameTable", b.dump("/debug/config_dump?proxy=vm-1&type=names").GetConfigs()[0].GetTypeUrl())

	d = b.dump("/debug/config_dump?proxy=vm-1&type=clusters&name=^outbound.*web")
	require.Len(t, d.GetConfigs(), 1)
	clusters := &adminv3.ClustersConfigDump{}
	require.NoError(t, d.GetConfigs()[0].UnmarshalTo(clusters))
	require.Equal(t, "1", clusters.GetVersionInfo())
	require.Len(t, clusters.GetDynamicActiveClusters(), 1)
	one, cluster := clusters.GetDynamicActiveClusters()[0], &clusterv3.Cluster{}
	require.NoError(t, one.GetCluster().UnmarshalTo(cluster))
	require.Equal(t, "outbound|80||web.shop", cluster.GetName())
	require.Equal(t, adminv3.ClientResourceStatus_ACKED, one.GetClientStatus())

	d = b.dump("/debug/config_dump?proxy=vm-1&type=endpoints,routes")
	endpoints := &adminv3.EndpointsConfigDump{}
	require.NoError(t, d.GetConfigs()[1].UnmarshalTo(endpoints))
	require.Equal(t, adminv3.ClientResourceStatus_UNKNOWN, endpoints.GetDynamicEndpointConfigs()[0].GetClientStatus(), "it has not asked for any")
}

// A dump has virtual hosts where Envoy's own has them, whether they are sent apart or not.
func TestARouteConfigurationIsShownWithItsHosts(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.apply(web)
	b.connect(node("sidecar", "10.0.0.1", "whole"), push.ClusterType).accept(1)
	b.connect(envoy(node("sidecar", "10.0.0.2", "divided")), push.ClusterType).accept(1)
	routes := func(proxy string) []*routev3.RouteConfiguration {
		dump := &adminv3.RoutesConfigDump{}
		require.NoError(t, b.dump("/debug/config_dump?type=routes&proxy=" + proxy).GetConfigs()[0].UnmarshalTo(dump))
		var all []*routev3.RouteConfiguration
		for _, d := range dump.GetDynamicRouteConfigs() {
			c := &routev3.RouteConfiguration{}
			require.NoError(t, d.GetRouteConfig().UnmarshalTo(c))
			all = append(all, c)
		}
		return all
	}
	whole, divided := routes("whole"), routes("divided")
	require.Len(t, divided, len(whole))
	apart := 0
	for i := range whole {
		require.Equal(t, whole[i].GetName(), divided[i].GetName())
		if divided[i].GetVhds() != nil {
			apart++
		}
		var domains, others []string
		for _, h := range whole[i].GetVirtualHosts() {
			domains = append(domains, h.GetDomains()...)
		}
		for _, h := range divided[i].GetVirtualHosts() {
			others = append(others, h.GetDomains()...)
		}
		require.ElementsMatch(t, domains, others)
	}
	require.Positive(t, apart)
	require.Empty(t, b.dump("/debug/config_dump?type=hosts&proxy=whole").GetConfigs())
	require.Equal(t, "type.googleapis.com/envoy.config.route.v3.VirtualHost", b.dump("/debug/config_dump?type=hosts&proxy=divided").GetConfigs()[0].GetTypeUrl())
	require.Equal(t, 2, shown[classes](b, "/debug/classes").Total.Classes)
}

func TestADumpTellsOfWhatIsRefused(t *testing.T) {
	t.Parallel()
	b, p := startWithProxy(t)
	b.apply(timeout)
	p.nack(p.receive(), "too short")
	eventually(b, "/debug/proxies", func(all proxies) bool { return len(all[0].Types[0].Refused) == 1 })
	dump := &adminv3.ClustersConfigDump{}
	require.NoError(t, b.dump("/debug/config_dump?proxy=vm-1&type=clusters&name=web").GetConfigs()[0].UnmarshalTo(dump))
	one := dump.GetDynamicActiveClusters()[0]
	require.Equal(t, adminv3.ClientResourceStatus_NACKED, one.GetClientStatus())
	require.Equal(t, "too short", one.GetErrorState().GetDetails())
	has, refused := &clusterv3.Cluster{}, &clusterv3.Cluster{}
	require.NoError(t, one.GetCluster().UnmarshalTo(has))
	require.NoError(t, one.GetErrorState().GetFailedConfiguration().UnmarshalTo(refused))
	require.Equal(t, int64(10), has.GetConnectTimeout().GetSeconds(), "which it has still")
	require.Equal(t, int64(1), refused.GetConnectTimeout().GetSeconds())
	require.NotEqual(t, one.GetVersionInfo(), one.GetErrorState().GetVersionInfo())
}

// plantedSecrets are sources of secrets: a gateway's key, whose certificate and key are filled in,
// filters with secrets in plain text, and what a module is pulled with.
const plantedSecrets = `
apiVersion: v1
kind: Secret
metadata: {name: registry}
type: kubernetes.io/dockerconfigjson
stringData: {.dockerconfigjson: '{"auths": {"registry.example": {"password": "planted-in-a-registry"}}}'}
---
apiVersion: extensions.istio.io/v1alpha1
kind: WasmPlugin
metadata: {name: pulled}
spec: {url: oci://registry.example/a, imagePullSecret: registry}
---
apiVersion: v1
kind: Secret
metadata: {name: gate}
type: kubernetes.io/tls
data: {tls.crt: %s, tls.key: %s}
---
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: gate}
spec: {servers: [{port: {number: 443, name: https, protocol: HTTPS}, hosts: ['*'], tls: {mode: SIMPLE, credentialName: gate}}]}
---
apiVersion: networking.istio.io/v1alpha3
kind: EnvoyFilter
metadata: {name: planted}
spec:
  configPatches:
  - applyTo: EXTENSION_CONFIG
    patch:
      operation: ADD
      value:
        name: plain
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.http.basic_auth.v3.BasicAuth
          users: {inline_string: "alice:{SHA}planted-in-a-filter"}
  - applyTo: EXTENSION_CONFIG
    patch:
      operation: ADD
      value:
        name: struct
        typed_config:
          "@type": type.googleapis.com/udpa.type.v1.TypedStruct
          type_url: type.googleapis.com/envoy.extensions.filters.http.basic_auth.v3.BasicAuth
          value: {users: {inline_string: "alice:{SHA}planted-in-a-struct"}}
`

// What is planted must be on no page, in no encoding that a reader could undo.
func TestSecretsAreOnNoPage(t *testing.T) {
	t.Parallel()
	b := start(t)
	pair := certtest.NewAuthority(t).Issue(nil)
	b.apply(fmt.Sprintf(plantedSecrets, base64.StdEncoding.EncodeToString(pair.Cert), base64.StdEncoding.EncodeToString(pair.Key)))
	described := node("router", "10.0.0.1", "gate")
	described.Metadata = &structpb.Struct{Fields: map[string]*structpb.Value{"ISTIO_VERSION": structpb.NewStringValue("1.31.0")}} // it has an agent
	gate := b.connect(described, push.ClusterType, push.SecretType)
	for range 2 { // Envoy quotes all that it refuses
		if r := gate.receive(); r.GetTypeUrl() == push.SecretType {
			gate.nack(r, fmt.Sprintf("constraint validation failed: tls_certificate { private_key { inline_bytes: %q } }", pair.Key))
		} else {
			gate.ack(r)
		}
	}
	eventually(b, "/debug/proxies?proxy=gate", func(all proxies) bool {
		return slices.ContainsFunc(all[0].Types, func(t typeOfProxy) bool { return strings.Contains(t.Nacked.Reason, `inline_bytes: "[redacted]"`) })
	})

	d := b.dump("/debug/config_dump?proxy=gate&type=secrets&name=^kubernetes://gate$")
	secrets, secret := &adminv3.SecretsConfigDump{}, &tlsv3.Secret{}
	require.NoError(t, d.GetConfigs()[0].UnmarshalTo(secrets))
	require.NoError(t, secrets.GetDynamicActiveSecrets()[0].GetSecret().UnmarshalTo(secret))
	require.Equal(t, string(pair.Cert), string(secret.GetTlsCertificate().GetCertificateChain().GetInlineBytes()), "which is for everybody")
	require.Equal(t, "[redacted]", string(secret.GetTlsCertificate().GetPrivateKey().GetInlineBytes()))
	_, filters := b.get("/debug/config_dump?proxy=gate&type=extensions")
	require.Equal(t, 3, strings.Count(filters, "[redacted]"), filters)
	require.Contains(t, filters, "TypedStruct")

	planted := []string{"planted-in-a-registry", "planted-in-a-filter", "planted-in-a-struct", string(pair.Key[40:60]), base64.StdEncoding.EncodeToString(pair.Key)[60:100]}
	for _, path := range b.pages("gate") {
		_, text := b.get(path)
		for _, secret := range planted {
			require.NotContains(t, text, secret, path)
		}
	}
}

// pages lists all pages, for a proxy if they need one.
func (b *bench) pages(proxy string) (paths []string) {
	for _, p := range shown[[]struct{ Path string }](b, "/debug") {
		paths = append(paths, p.Path, p.Path+"?proxy="+proxy)
	}
	return paths
}
