package mesh_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
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
	"github.com/pgmesh/pgmesh/identity/credential"
	"github.com/pgmesh/pgmesh/kinds"
	mcpv1 "github.com/pgmesh/pgmesh/proto/pgmesh/mcp/v1"
)

// TestAMeshBuiltInStepsEqualsOneBuiltAtOnce makes random changes, one revision after the other. It
// compares what a mesh built from the one before says with what one built from nothing says.
// Proxies ask only some of the meshes.
func TestAMeshBuiltInStepsEqualsOneBuiltAtOnce(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			draw := draw{rand.New(rand.NewPCG(seed, 7))}
			store := configstore.New()
			var stepwise, before *mesh.Mesh
			var trust mesh.Trust
			for revision := range int64(100) {
				if stepwise != nil && draw.oneIn(4) {
					trust = draw.trust()
					stepwise = stepwise.WithTrust(trust)
				}
				batch := kinds.Batch{Revision: revision, Changes: draw.changes(t, store.Snapshot())}
				before, stepwise = stepwise, mesh.Build(store.Apply(batch), stepwise)
				if draw.oneIn(4) {
					continue
				}
				atOnce := mesh.Build(store.Snapshot().FromNothing(), nil).WithTrust(trust)
				require.Equal(t, atOnce.Problems(), stepwise.Problems())
				require.Equal(t, atOnce.KeyProblems(), stepwise.KeyProblems())
				require.Equal(t, atOnce.KeySources(), stepwise.KeySources())
				require.Equal(t, described(atOnce.Services()), described(stepwise.Services()))
				requireShapes(t, before, stepwise)
				for _, p := range everyProxy() {
					if draw.oneIn(3) {
						require.Equal(t, saidTo(atOnce, p), saidTo(stepwise, p), "revision %d, for %s in %s", revision, p.Type, p.Namespace)
						requireKept(t, before, stepwise, p, batch)
					}
				}
			}
		})
	}
}

// requireShapes checks that services whose shape stayed differ only in endpoints.
func requireShapes(t *testing.T, before, after *mesh.Mesh) {
	t.Helper()
	if before == nil {
		return
	}
	old := map[*mesh.Shape]*mesh.Service{}
	for _, s := range before.Services() {
		old[s.Shape] = s
	}
	for _, s := range after.Services() {
		if o := old[s.Shape]; o != nil {
			require.True(t, slices.Equal(o.Ports, s.Ports))
			require.Equal(t, shapeOf(o), shapeOf(s))
			require.True(t, s.Resolution != mesh.ResolutionNone || o == s)
		}
	}
}

// requireKept checks that what did not change is the same pointer: services whose entries did not,
// and a scope that shows the same.
func requireKept(t *testing.T, before, after *mesh.Mesh, p *mesh.Proxy, batch kinds.Batch) {
	t.Helper()
	if before == nil {
		return
	}
	if !slices.ContainsFunc(batch.Changes, func(c kinds.Change) bool { return c.Key.Kind.Name == "RequestAuthentication" }) && before.Config == after.Config &&
		before.Class(p).Tokens == after.Class(p).Tokens {
		require.Same(t, before.TokenRules(p), after.TokenRules(p))
	}
	if !slices.ContainsFunc(batch.Changes, func(c kinds.Change) bool {
		return c.Key.Kind.Name == "Telemetry" && strings.Contains(before.Class(p).Telemetry, c.Key.Namespace+"/"+c.Key.Name)
	}) && before.Config == after.Config && before.Class(p).Telemetry == after.Class(p).Telemetry && toldText(before.Telemetry(p)) == toldText(after.Telemetry(p)) &&
		!slices.ContainsFunc(batch.Changes, func(c kinds.Change) bool { return c.Key.Kind.Name == "ServiceEntry" }) {
		require.Same(t, before.Telemetry(p), after.Telemetry(p))
	}
	old, now := before.Scope(before.Known(p)), after.Scope(after.Known(p))
	ofRules := func(c kinds.Change) bool { return c.Key.Kind.Name == "DestinationRule" } // rules may hide others
	if slices.Equal(shownBy(old), shownBy(now)) && before.Config == after.Config && old.Sidecar == now.Sidecar && !slices.ContainsFunc(batch.Changes, ofRules) {
		require.Same(t, old, now)
	}
	if slices.ContainsFunc(batch.Changes, func(c kinds.Change) bool {
		return c.Key.Kind.Name == "WorkloadEntry" || c.Key.Kind.Name == "MeshConfig"
	}) {
		return // this may change any service
	}
	if !slices.ContainsFunc(batch.Changes, func(c kinds.Change) bool { return c.Key.Kind.Group == "extensions.istio.io" }) &&
		before.Class(p).Extensions == after.Class(p).Extensions && before.Config == after.Config {
		require.True(t, slices.Equal(before.Extensions(p), after.Extensions(p)))
	}
	if before.Class(p).Policies == after.Class(p).Policies && !slices.ContainsFunc(batch.Changes, func(c kinds.Change) bool { return c.Key.Kind.Name == "AuthorizationPolicy" }) {
		require.True(t, slices.Equal(before.AuthorizationPolicies(p), after.AuthorizationPolicies(p)))
	}
	were := byHost(before)
	for host, services := range byHost(after) {
		if slices.EqualFunc(were[host], services, func(a, b *mesh.Service) bool {
			return a.Entry == b.Entry && slices.Equal(a.Allocated, b.Allocated)
		}) {
			require.True(t, slices.Equal(were[host], services), host)
		}
	}
}

func byHost(m *mesh.Mesh) map[string][]*mesh.Service {
	out := map[string][]*mesh.Service{}
	for _, s := range m.Services() {
		out[s.Namespace+"/"+s.Hostname] = append(out[s.Namespace+"/"+s.Hostname], s)
	}
	return out
}

// saidTo describes everything that a mesh says to a proxy.
func saidTo(m *mesh.Mesh, p *mesh.Proxy) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\nclass %+v\nknown %+v\n", scopeText(m, p), m.Class(p), m.Known(p).Labels)
	fmt.Fprintln(&b, "trust", *m.Trust())
	for _, s := range m.Scope(m.Known(p)).Services {
		fmt.Fprintln(&b, "identities", m.Identities(s))
	}
	for _, target := range m.Targets(p) {
		fmt.Fprintf(&b, "target %s %+v %d %s\n", target.Service.Hostname, *target.Port, target.Number, target.Locality)
	}
	for _, a := range m.AuthorizationPolicies(p) {
		fmt.Fprintf(&b, "policy %p %s %t\n", a.Resource, wire(a.Spec), a.DryRun)
	}
	for _, e := range m.Extensions(p) {
		fmt.Fprintf(&b, "extension %p %s %s\n", e.Resource, e.Name, e.Version)
	}
	for _, s := range m.PullSecrets(p) {
		if s != nil {
			fmt.Fprintf(&b, "pulls with %s/%s %s\n", s.Namespace, s.Name, s.Registries)
		}
	}
	for _, name := range []string{"one", "two"} {
		fmt.Fprintf(&b, "authorizer %+v\n", m.Authorizer(name))
	}
	fmt.Fprintf(&b, "telemetry %s\n", toldText(m.Telemetry(p)))
	fmt.Fprintln(&b, m.NetworkScale(), m.NetworkGateways("near"), m.NamespaceMutualTLS(p.Namespace))
	if tokens := m.TokenRules(p); tokens != nil {
		for _, rule := range tokens.Rules {
			fmt.Fprintln(&b, "token", rule.GetIssuer(), rule.KeySet)
		}
	}
	if p.Type == mesh.Router {
		f := m.Frontend(p)
		fmt.Fprintln(&b, f.Problems)
		for _, socket := range f.Sockets {
			fmt.Fprintln(&b, socket.Bind, socket.Port)
			for _, e := range socket.Entrances {
				fmt.Fprintln(&b, e.Server, e.Names, e.Route, e.To)
			}
		}
	}
	return b.String()
}

func toldText(t *mesh.Telemetry) string {
	var b strings.Builder
	for _, role := range []mesh.Role{mesh.AsClient, mesh.AsServer} {
		told := t.As(role)
		fmt.Fprint(&b, told.LogsSaid)
		for _, l := range told.Logs {
			fmt.Fprintf(&b, " log %s %+v %s", l.Provider.Spec.GetName(), l.Provider.Collector, l.Filter)
		}
		if told.Trace != nil {
			fmt.Fprintf(&b, " trace %s %+v %t", told.Trace.Provider.Spec.GetName(), told.Trace.Provider.Collector, told.Trace.Disabled)
		}
		for _, m := range told.Metrics {
			fmt.Fprintf(&b, " metrics %s %+v", m.Provider.Spec.GetName(), m.Overrides)
		}
	}
	return b.String()
}

var namespacesDrawn = []string{"istio-system", "one", "two", "three"}

// everyProxy has a proxy for each case that the random rules tell apart.
func everyProxy() []*mesh.Proxy {
	var out []*mesh.Proxy
	for _, namespace := range namespacesDrawn {
		for i, app := range []string{"", "a", "b"} {
			p := sidecar(namespace, map[string]string{"app": app}, fmt.Sprint("10.0.0.", i))
			if p.ServiceAccount = "account"; i > 0 {
				p.PullsModules = true
			}
			out = append(out, p)
		}
		out = append(out, &mesh.Proxy{Type: mesh.Router, Addresses: []string{"10.0.0.9"}, Namespace: namespace, Labels: map[string]string{"app": "a"}})
	}
	return out
}

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
	const networks = "networking.istio.io"
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
		drawn{"", "Secret", d.pullSecret()},
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

func (d draw) pullSecret() *mcpv1.Secret {
	return &mcpv1.Secret{
		Type: credential.Registries, Data: map[string][]byte{".dockerconfigjson": []byte(pick(d, `{"auths":{"a":{}}}`, `{"auths":{"b":{}}}`, `{}`))},
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
	return &meshconfig.MeshNetworks{Networks: map[string]*meshconfig.Network{"near": {
		Endpoints: []*meshconfig.Network_NetworkEndpoints{{Ne: &meshconfig.Network_NetworkEndpoints_FromCidr{FromCidr: "10.0.0.0/28"}}},
		Gateways:  []*meshconfig.Network_IstioNetworkGateway{{Gw: &meshconfig.Network_IstioNetworkGateway_RegistryServiceName{RegistryServiceName: d.host()}, Port: 80}},
	}}}
}
