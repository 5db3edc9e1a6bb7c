package mesh_test

import (
	"encoding/pem"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
	extensions "istio.io/api/extensions/v1alpha1"
	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"
	security "istio.io/api/security/v1beta1"
	telemetry "istio.io/api/telemetry/v1alpha1"
	selection "istio.io/api/type/v1beta1"

	"github.com/pgmesh/pgmesh/discovery/configstore"
	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/identity/authority"
	"github.com/pgmesh/pgmesh/identity/credential"
	"github.com/pgmesh/pgmesh/kinds"
	mcpv1 "github.com/pgmesh/pgmesh/proto/pgmesh/mcp/v1"
)

// draw makes random resources that conflict with one another.
type draw struct{ *rand.Rand }

func (d draw) oneIn(n int) bool { return d.IntN(n) == 0 }

func pick[T any](d draw, from ...T) T { return from[d.IntN(len(from))] }

func (d draw) some(from ...string) (out []string) {
	for _, text := range from {
		if d.oneIn(2) {
			out = append(out, text)
		}
	}
	return out
}

func (d draw) host() string {
	return pick(d, "a.com", "b.com", "x.a.com", "y.a.com", "*.a.com", "*.com", "*", "short", "x.b.com", "z.c.com", "deep.x.a.com", "*.x.a.com")
}

func (d draw) hosts() []string {
	out := []string{d.host()}
	for !slices.Contains(out, d.host()) && d.oneIn(2) {
		if host := d.host(); !slices.Contains(out, host) {
			out = append(out, host)
		}
	}
	return out
}

func (d draw) exportTo() []string {
	return pick(d, nil, nil, nil, []string{"*"}, []string{"."}, []string{"one"}, []string{"two", "three"}, []string{".", "two"}, []string{"~"})
}

func (d draw) address() string { return fmt.Sprint("10.0.0.", d.IntN(12)) }

func (d draw) labels() map[string]string {
	out := map[string]string{}
	for _, name := range d.some("app", "version") {
		out[name] = pick(d, "a", "b")
	}
	return out
}

func (d draw) changes(t *testing.T, now *configstore.Snapshot) (out []kinds.Change) {
	t.Helper()
	for range 1 + d.IntN(1+d.IntN(1+d.IntN(30))) {
		r := d.resource(t)
		c := kinds.Change{Key: r.Key(), Resource: r}
		if old := now.Get(c.Key); old != nil {
			if !d.oneIn(5) { // most edits keep the age
				r.CreateTime = old.CreateTime
			}
			if d.oneIn(4) {
				c.Resource = nil
			}
		}
		out = append(out, c)
	}
	return out
}

func (d draw) resource(t *testing.T) *kinds.Resource {
	t.Helper()
	type drawn struct {
		group, kind string
		spec        proto.Message
	}
	const networks, gatewayAPI = "networking.istio.io", "gateway.networking.k8s.io"
	entry := drawn{networks, "ServiceEntry", d.serviceEntry()}
	virtual := drawn{networks, "VirtualService", d.virtualService()}
	rule := drawn{networks, "DestinationRule", d.destinationRule()}
	workload := drawn{networks, "WorkloadEntry", &networking.WorkloadEntry{
		Address: d.address(), Labels: d.labels(), Weight: uint32(d.IntN(3)), ServiceAccount: pick(d, "", "account"), Locality: pick(d, "", "r/z"),
	}}
	chosen := pick(
		d, entry, entry, entry, entry, virtual, virtual, virtual, rule, rule, rule, workload, workload, workload,
		drawn{networks, "Sidecar", d.sidecar()}, drawn{networks, "Gateway", d.gateway()},
		drawn{"security.istio.io", "PeerAuthentication", d.peerAuthentication()}, drawn{"security.istio.io", "AuthorizationPolicy", d.authorizationPolicy()},
		drawn{"security.istio.io", "RequestAuthentication", d.requestAuthentication()},
		drawn{"telemetry.istio.io", "Telemetry", d.telemetry()},
		drawn{"extensions.istio.io", "TrafficExtension", d.trafficExtension()}, drawn{"extensions.istio.io", "WasmPlugin", d.wasmPlugin()},
		drawn{"", "Secret", d.secret(t)},
		drawn{gatewayAPI, "Gateway", d.apiGateway(t)}, drawn{gatewayAPI, "HTTPRoute", d.route(t)}, drawn{gatewayAPI, "HTTPRoute", d.route(t)},
		drawn{gatewayAPI, pick(d, "TLSRoute", "TCPRoute", "UDPRoute", "GRPCRoute"), d.route(t)}, drawn{gatewayAPI, "ListenerSet", d.listenerSet(t)},
		drawn{gatewayAPI, "BackendTLSPolicy", d.backendTLS(t)}, drawn{gatewayAPI, "BackendTLSPolicy", d.backendTLS(t)},
		drawn{"gateway.networking.x-k8s.io", "XBackendTrafficPolicy", d.backendTraffic(t)},
		drawn{"inference.networking.k8s.io", "InferencePool", d.pool(t)},
		pick(d, drawn{gatewayAPI, "ReferenceGrant", d.grant(t)}, drawn{gatewayAPI, "GatewayClass", d.gatewayClass(t)}),
		pick(d, virtual, drawn{"core", "MeshConfig", d.meshConfig()}, drawn{"core", "MeshNetworks", d.meshNetworks()}),
	)
	kind, ok := kinds.Lookup(chosen.group, chosen.kind)
	if chosen.kind == "Secret" {
		kind, ok = kinds.Secret, true
	}
	require.True(t, ok)
	r := &kinds.Resource{
		Kind: kind, Namespace: pick(d, namespacesDrawn...), Name: fmt.Sprint("r", d.IntN(9)),
		CreateTime: time.Unix(int64(d.IntN(5)), 0), Spec: kinds.SpecOf(chosen.spec),
	}
	if d.oneIn(9) {
		r.Labels = map[string]string{"networking.istio.io/enable-autoallocate-ip": "false", "version": "a"}
	}
	if ranks := map[string]string{"r6": "1", "r7": "1", "r8": "2"}; chosen.kind == "ServiceEntry" && ranks[r.Name] != "" { // of a registry
		r.Annotations = map[string]string{kinds.OriginRankAnnotation: ranks[r.Name], kinds.OriginAnnotation: "registry-" + ranks[r.Name]}
	}
	if chosen.kind == "ServiceEntry" && d.oneIn(5) {
		r.Labels = map[string]string{mesh.LabelNetwork: pick(d, "near", "far"), "networking.istio.io/gatewayPort": pick(d, "80", "81", "none")}
	}
	if carries := chosen.kind == "BackendTLSPolicy" || chosen.kind == "Gateway"; carries && d.oneIn(2) {
		r.Annotations = map[string]string{kinds.OriginAuthoritiesAnnotation: kinds.WrittenAuthorities(map[string]string{r.Namespace + "/" + d.name(): fmt.Sprint("PEM ", d.IntN(3))})}
	}
	if chosen.kind == "InferencePool" && d.oneIn(2) {
		r.Annotations = map[string]string{kinds.OriginEndpointsAnnotation: kinds.WrittenEndpoints(d.pods())}
	}
	if chosen.kind == "GatewayClass" {
		r.Namespace = ""
	}
	if chosen.group == "core" {
		r.Namespace, r.Name = "istio-system", "core"
	}
	return r
}

// identity may be that of a server, and appears in rules and services, too.
func (d draw) identity() string {
	return "ns/" + pick(d, namespacesDrawn...) + "/sa/account"
}

func (d draw) subjectAltNames() []string {
	return pick(d, nil, nil, []string{"spiffe://cluster.local/" + d.identity()}, []string{"spiffe://elsewhere/" + d.identity(), "a.com"})
}

func (d draw) trust() (out mesh.Trust) {
	for range d.IntN(4) {
		out.Revoked = append(out.Revoked, d.identity())
	}
	out.Federated = d.some("elsewhere", "far")
	return out
}

func (d draw) serviceEntry() *networking.ServiceEntry {
	spec := &networking.ServiceEntry{
		Hosts: d.hosts(), ExportTo: d.exportTo(), Location: networking.ServiceEntry_Location(d.IntN(2)),
		Resolution: pick(d, networking.ServiceEntry_STATIC, networking.ServiceEntry_STATIC, networking.ServiceEntry_NONE,
			networking.ServiceEntry_DNS, networking.ServiceEntry_DNS_ROUND_ROBIN),
		SubjectAltNames: d.subjectAltNames(),
		Addresses:       pick(d, nil, nil, nil, []string{"10.9.0.1"}, []string{fmt.Sprint("240.240.", d.IntN(3), ".", 1+d.IntN(9))}),
	}
	for _, number := range pick(d, []uint32{80}, []uint32{80, 81}, []uint32{81}, []uint32{82, 80}) {
		spec.Ports = append(spec.Ports, &networking.ServicePort{Number: number, Name: fmt.Sprint("p", number), Protocol: pick(d, "HTTP", "HTTP", "TCP")})
	}
	if d.oneIn(3) {
		spec.WorkloadSelector = &networking.WorkloadSelector{Labels: d.labels()}
		return spec
	}
	for range d.IntN(3) {
		spec.Endpoints = append(spec.Endpoints, &networking.WorkloadEntry{Address: d.address(), Labels: d.labels(), ServiceAccount: pick(d, "", "account")})
	}
	return spec
}

func (d draw) destination() *networking.Destination {
	to := &networking.Destination{Host: d.host()}
	if d.oneIn(3) {
		to.Port = &networking.PortSelector{Number: pick(d, uint32(80), uint32(81))}
	}
	return to
}

func (d draw) virtualService() *networking.VirtualService {
	spec := &networking.VirtualService{Hosts: d.hosts(), ExportTo: d.exportTo(), Gateways: pick(d, nil, nil, []string{"r1"}, []string{"mesh", "one/r2"})}
	if d.oneIn(6) {
		spec.Hosts = nil // for others to delegate to
	}
	for range 1 + d.IntN(2) {
		route := &networking.HTTPRoute{Route: []*networking.HTTPRouteDestination{{Destination: d.destination()}}}
		if d.oneIn(3) {
			route.Match = []*networking.HTTPMatchRequest{{SourceNamespace: pick(d, "", "one", "two"), SourceLabels: d.labels()}}
		}
		if d.oneIn(4) && spec.Hosts != nil {
			route.Route, route.Delegate = nil, &networking.Delegate{Name: fmt.Sprint("r", d.IntN(9))}
		}
		spec.Http = append(spec.Http, route)
	}
	return spec
}

func (d draw) destinationRule() *networking.DestinationRule {
	spec := &networking.DestinationRule{Host: d.host(), ExportTo: d.exportTo()}
	if d.oneIn(3) {
		spec.WorkloadSelector = &selection.WorkloadSelector{MatchLabels: map[string]string{"app": pick(d, "a", "b")}}
	}
	for range d.IntN(3) {
		spec.Subsets = append(spec.Subsets, &networking.Subset{Name: pick(d, "v1", "v2", "v3"), Labels: d.labels()})
	}
	if d.oneIn(2) {
		spec.TrafficPolicy = &networking.TrafficPolicy{LoadBalancer: &networking.LoadBalancerSettings{LocalityLbSetting: &networking.LocalityLoadBalancerSetting{
			FailoverPriority: d.some("version", "app"),
		}}}
	}
	return spec
}

func (d draw) sidecar() *networking.Sidecar {
	spec := &networking.Sidecar{}
	if d.oneIn(2) {
		spec.WorkloadSelector = &networking.WorkloadSelector{Labels: map[string]string{"app": pick(d, "a", "b")}}
	}
	for range d.IntN(3) {
		listener := &networking.IstioEgressListener{Hosts: []string{pick(d, "*", ".", "one", "two", "~two") + "/" + d.host()}}
		if d.oneIn(3) {
			listener.Hosts = append(listener.Hosts, pick(d, "*", ".")+"/*", pick(d, "~*", "~one")+"/"+d.host())
		}
		if d.oneIn(4) {
			listener.Port = &networking.SidecarPort{Number: 80, Protocol: pick(d, "HTTP", "HTTP_PROXY", "TCP"), Name: "port"}
		}
		spec.Egress = append(spec.Egress, listener)
	}
	if d.oneIn(4) {
		spec.OutboundTrafficPolicy = &networking.OutboundTrafficPolicy{}
	}
	return spec
}

func (d draw) gateway() *networking.Gateway {
	return &networking.Gateway{Selector: map[string]string{"app": pick(d, "a", "b")}, Servers: []*networking.Server{{
		Port: &networking.Port{Number: pick(d, uint32(80), uint32(443)), Name: "port", Protocol: pick(d, "HTTP", "TCP")}, Hosts: d.hosts(),
	}}}
}

func (d draw) peerAuthentication() *security.PeerAuthentication {
	spec := &security.PeerAuthentication{Mtls: &security.PeerAuthentication_MutualTLS{Mode: security.PeerAuthentication_MutualTLS_Mode(d.IntN(4))}}
	if d.oneIn(2) {
		spec.Selector = &selection.WorkloadSelector{MatchLabels: d.labels()}
	}
	return spec
}

func (d draw) authorizationPolicy() *security.AuthorizationPolicy {
	spec := &security.AuthorizationPolicy{Rules: []*security.Rule{{To: []*security.Rule_To{{Operation: &security.Operation{Ports: []string{pick(d, "80", "81")}}}}}}}
	if d.oneIn(3) {
		spec.Selector = &selection.WorkloadSelector{MatchLabels: d.labels()}
	}
	if d.oneIn(3) {
		spec.Action = security.AuthorizationPolicy_CUSTOM
		spec.ActionDetail = &security.AuthorizationPolicy_Provider{Provider: &security.AuthorizationPolicy_ExtensionProvider{Name: pick(d, "one", "two")}}
	}
	return spec
}

func (d draw) requestAuthentication() *security.RequestAuthentication {
	spec := &security.RequestAuthentication{}
	if d.oneIn(2) {
		spec.Selector = &selection.WorkloadSelector{MatchLabels: d.labels()}
	}
	for range d.IntN(3) {
		rule := &security.JWTRule{Issuer: pick(d, "a", "b"), Jwks: pick(d, "", `{"keys":[]}`, `{"keys":[{"kty":"oct","k":"b25l"}]}`, `{"keys":[5,{"kty":"oct","k":"dHdv"}]}`)}
		spec.JwtRules = append(spec.JwtRules, rule)
	}
	return spec
}

func (d draw) telemetry() *telemetry.Telemetry {
	spec := &telemetry.Telemetry{}
	if d.oneIn(2) {
		spec.Selector = &selection.WorkloadSelector{MatchLabels: d.labels()}
	}
	providers := func() (out []*telemetry.ProviderRef) {
		for _, name := range d.some("envoy", "log", "spans", "prometheus") {
			out = append(out, &telemetry.ProviderRef{Name: name})
		}
		return out
	}
	for range d.IntN(3) {
		spec.AccessLogging = append(spec.AccessLogging, &telemetry.AccessLogging{
			Match: &telemetry.AccessLogging_LogSelector{Mode: telemetry.WorkloadMode(d.IntN(3))}, Providers: providers(),
		})
		spec.Tracing = append(spec.Tracing, &telemetry.Tracing{Providers: providers()})
		spec.Metrics = append(spec.Metrics, &telemetry.Metrics{Providers: providers(), Overrides: []*telemetry.MetricsOverrides{{
			Disabled: pick(d, nil, wrapperspb.Bool(true), wrapperspb.Bool(false)),
		}}})
	}
	return spec
}

// collectors are providers whose service is there or not.
func (d draw) collectors() []*meshconfig.MeshConfig_ExtensionProvider {
	return []*meshconfig.MeshConfig_ExtensionProvider{
		{Name: "log", Provider: &meshconfig.MeshConfig_ExtensionProvider_EnvoyHttpAls{
			EnvoyHttpAls: &meshconfig.MeshConfig_ExtensionProvider_EnvoyHttpGrpcV3LogProvider{Service: d.host(), Port: 80},
		}},
		{Name: "spans", Provider: &meshconfig.MeshConfig_ExtensionProvider_Zipkin{
			Zipkin: &meshconfig.MeshConfig_ExtensionProvider_ZipkinTracingProvider{Service: d.host(), Port: 81},
		}},
	}
}

func (d draw) trafficExtension() *extensions.TrafficExtension {
	spec := &extensions.TrafficExtension{Phase: pick(d, extensions.TrafficExtension_AUTHN, extensions.TrafficExtension_STATS)}
	if d.oneIn(2) {
		spec.FilterConfig = &extensions.TrafficExtension_Lua{Lua: &extensions.LuaConfig{InlineCode: pick(d, "-- a", "-- b")}}
	} else {
		spec.FilterConfig = &extensions.TrafficExtension_Wasm{Wasm: &extensions.WasmConfig{Url: pick(d, "a", "file:///a"), ImagePullSecret: pick(d, "", "r1")}}
	}
	switch d.IntN(3) {
	case 0:
		spec.Selector = &selection.WorkloadSelector{MatchLabels: d.labels()}
	case 1:
		spec.Priority = wrapperspb.Int32(int32(d.IntN(3)))
	}
	return spec
}

func (d draw) wasmPlugin() *extensions.WasmPlugin {
	spec := &extensions.WasmPlugin{Url: pick(d, "a", "b"), Type: pick(d, extensions.PluginType_HTTP, extensions.PluginType_NETWORK), ImagePullSecret: pick(d, "", "r1", "r2")}
	if d.oneIn(2) {
		spec.Selector = &selection.WorkloadSelector{MatchLabels: d.labels()}
	}
	if d.oneIn(2) {
		spec.Match = []*extensions.WasmPlugin_TrafficSelector{{Mode: pick(d, selection.WorkloadMode_CLIENT, selection.WorkloadMode_SERVER)}}
	}
	return spec
}

// secret can be used: of one that cannot, the last good state counts, and so its past.
func (d draw) secret(t *testing.T) *mcpv1.Secret {
	t.Helper()
	if d.oneIn(2) {
		root, err := authority.NewRoot("mesh.example", time.Hour)
		require.NoError(t, err)
		text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate().Raw})
		return &mcpv1.Secret{Type: credential.Opaque, Data: map[string][]byte{"ca.crt": text}, ServiceAccounts: d.some("account", "other")}
	}
	return &mcpv1.Secret{
		Type: credential.Registries, Data: map[string][]byte{".dockerconfigjson": []byte(pick(d, `{"auths":{"a":{}}}`, `{"auths":{"b":{}}}`))},
		ServiceAccounts: d.some("account", "other"),
	}
}

func (d draw) meshConfig() *meshconfig.MeshConfig {
	spec := &meshconfig.MeshConfig{}
	if d.oneIn(2) {
		spec.DefaultServiceExportTo = []string{pick(d, ".", "*")}
	}
	if d.oneIn(2) {
		spec.DefaultVirtualServiceExportTo, spec.DefaultDestinationRuleExportTo = []string{pick(d, ".", "*")}, []string{pick(d, ".", "*")}
	}
	if d.oneIn(3) {
		spec.RootNamespace = "three"
	}
	if d.oneIn(2) {
		spec.ExtensionProviders = d.collectors()
	}
	if d.oneIn(3) {
		spec.DefaultProviders = &meshconfig.MeshConfig_DefaultProviders{AccessLogging: d.some("envoy", "log"), Tracing: d.some("spans"), Metrics: d.some("prometheus")}
	}
	if d.oneIn(2) {
		spec.ExtensionProviders = []*meshconfig.MeshConfig_ExtensionProvider{{
			Name: pick(d, "one", "two"), Provider: &meshconfig.MeshConfig_ExtensionProvider_EnvoyExtAuthzGrpc{
				EnvoyExtAuthzGrpc: &meshconfig.MeshConfig_ExtensionProvider_EnvoyExternalAuthorizationGrpcProvider{Service: d.host(), Port: 80},
			},
		}}
	}
	return spec
}

func (d draw) meshNetworks() *meshconfig.MeshNetworks {
	registry := &meshconfig.Network_NetworkEndpoints{Ne: &meshconfig.Network_NetworkEndpoints_FromRegistry{FromRegistry: pick(d, "registry-1", "registry-2", "another")}}
	return &meshconfig.MeshNetworks{Networks: map[string]*meshconfig.Network{"near": {
		Endpoints: []*meshconfig.Network_NetworkEndpoints{{Ne: &meshconfig.Network_NetworkEndpoints_FromCidr{FromCidr: "10.0.0.0/28"}}, registry},
		Gateways:  []*meshconfig.Network_IstioNetworkGateway{{Gw: &meshconfig.Network_IstioNetworkGateway_RegistryServiceName{RegistryServiceName: d.host()}, Port: 80}},
	}}}
}
