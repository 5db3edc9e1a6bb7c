package translate_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/discovery/randommesh"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/kinds/schema"
)

// translatedKinds are those of which every field must show in the output, or be known not to.
func translatedKinds() map[string][]string {
	return map[string][]string{
		"networking.istio.io": {
			"VirtualService", "DestinationRule", "ServiceEntry", "WorkloadEntry", "WorkloadGroup", "Gateway", "Sidecar", "EnvoyFilter", "ProxyConfig",
		},
		"security.istio.io":   {"AuthorizationPolicy", "PeerAuthentication", "RequestAuthentication"},
		"telemetry.istio.io":  {"Telemetry"},
		"extensions.istio.io": {"WasmPlugin", "TrafficExtension"},
		"core":                {"MeshConfig", "MeshNetworks"},
		"gateway.networking.k8s.io": {
			"GatewayClass", "Gateway", "ListenerSet", "HTTPRoute", "GRPCRoute", "TLSRoute", "TCPRoute", "UDPRoute", "BackendTLSPolicy", "ReferenceGrant",
		},
		"gateway.networking.x-k8s.io": {"XBackendTrafficPolicy"},
		"inference.networking.k8s.io": {"InferencePool"},
	}
}

// TestEveryFieldIsShown wants each field of the translated kinds in the input of a golden pair, or
// in the list of what is unsupported. A message type that is used in several places needs to be
// shown in one.
func TestEveryFieldIsShown(t *testing.T) {
	t.Parallel()
	c := coverage{unsupported: unsupportedFields(t), shown: shownFields(t), seen: map[string]bool{}}
	for group, names := range translatedKinds() {
		for _, kind := range names {
			root, ok := schema.Root(group, kind)
			require.True(t, ok, kind)
			if !c.unsupported[field{of: root.Name}] {
				c.walk(t, root, kind)
			}
		}
	}
	t.Logf("%d fields of %d types", c.fields, len(c.seen))
	require.Greater(t, c.fields, 300, "the walk ended early")
}

// TestEveryKindIsTranslatedOrUnsupported wants each kind in translatedKinds, or in the list of what
// is unsupported. So a kind that leaves the list has its fields shown.
func TestEveryKindIsTranslatedOrUnsupported(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	for group, names := range translatedKinds() {
		for _, kind := range names {
			known[group+"/"+kind] = true
		}
	}
	for _, u := range schema.AllUnsupported() {
		for _, kind := range u.Kinds {
			if u.Path == "" && u.When == "" {
				known[u.Group+"/"+kind] = true
			}
		}
	}
	for _, k := range kinds.All() {
		require.True(t, known[k.Group+"/"+k.Name] || k == kinds.Secret,
			"%s/%s: add it to translatedKinds, or to kinds/schema/unsupported.yaml with the reason", k.Group, k.Name)
	}
}

// field is one of a message type.
type field struct{ of, name string }

type coverage struct {
	unsupported, shown map[field]bool
	seen               map[string]bool // the types that were walked
	fields             int
}

func (c *coverage) walk(t *testing.T, of *schema.Type, path string) {
	t.Helper()
	if c.seen[of.Name] {
		return
	}
	c.seen[of.Name] = true
	for _, f := range of.Fields {
		at := field{of.Name, f.Name}
		if c.unsupported[at] || toldElsewhere()[at] {
			continue
		}
		c.fields++
		if !c.shown[at] {
			t.Errorf("%s.%s is in no golden pair, nor in kinds/schema/unsupported.yaml", path, f.Name)
		} else if f.Type == schema.Message {
			c.walk(t, schema.Types()[f.TypeRef], path+"."+f.Name)
		}
	}
}

// toldElsewhere are fields in neither place, of which users are told in another way.
func toldElsewhere() map[field]bool {
	const networking, proxy = "istio.networking.v1alpha3.", "istio.mesh.v1alpha1.ProxyConfig"
	return map[field]bool{
		// Refused where they are written, as by Istio.
		{networking + "HTTPFaultInjection.Delay", "exponentialDelay"}: true,
		{networking + "HTTPFaultInjection.Abort", "http2Error"}:       true,
		{"istio.type.v1beta1.PolicyTargetReference", "namespace"}:     true,
		// A finding of package kinds/envoy: the patch can do nothing.
		{networking + "EnvoyFilter", "targetRefs"}:                      true,
		{networking + "EnvoyFilter.EnvoyConfigObjectMatch", "waypoint"}: true,
		// They make the entries of machines, and say how those are probed:
		// store/sql/90_workload_entries.sql, discovery/register.
		{networking + "WorkloadGroup", "metadata"}: true,
		{networking + "WorkloadGroup", "template"}: true,
		{networking + "WorkloadGroup", "probe"}:    true,
		// Agents act on them when they start their proxies: mesh-agent/envoy/proxyconfig.
		{"istio.networking.v1beta1.ProxyConfig", "concurrency"}: true,
		{proxy, "binaryPath"}:               true,
		{proxy, "concurrency"}:              true,
		{proxy, "drainDuration"}:            true,
		{proxy, "fileFlushInterval"}:        true,
		{proxy, "fileFlushMinSizeKb"}:       true,
		{proxy, "proxyAdminPort"}:           true,
		{proxy, "proxyStatsMatcher"}:        true,
		{proxy, "runtimeValues"}:            true,
		{proxy, "serviceCluster"}:           true,
		{proxy, "statsdUdpAddress"}:         true,
		{proxy, "statusPort"}:               true,
		{proxy, "terminationDrainDuration"}: true,
		{proxy + ".ConnectionSettings", "globalDownstreamConnectionLimit"}: true,
	}
}

// shownFields are those in the inputs of golden pairs.
func shownFields(t *testing.T) map[field]bool {
	t.Helper()
	shown := map[field]bool{}
	show := func(of *schema.Type, in any) {
		members, _ := in.(map[string]any)
		for _, f := range of.Fields {
			if _, there := members[f.Name]; there {
				shown[field{of.Name, f.Name}] = true
			}
		}
	}
	for _, d := range randommesh.ReadGolden(t, inputs(t)).Documents {
		if root, ok := schema.Root(d.Resource.Kind.Group, d.Resource.Kind.Name); ok {
			var spec any
			require.NoError(t, json.Unmarshal(d.Spec, &spec))
			show(root, spec)
			randommesh.Parts(root, spec, func(typeName string, at *any) { show(schema.Types()[typeName], *at) })
		}
	}
	return shown
}

// unsupportedFields are those that do nothing whatever their value is.
func unsupportedFields(t *testing.T) map[field]bool {
	t.Helper()
	listed := map[field]bool{}
	for _, u := range schema.AllUnsupported() {
		if u.When != "" {
			continue
		}
		for _, kind := range u.Kinds {
			root, ok := schema.Root(u.Group, kind)
			require.True(t, ok, kind)
			listed[lastField(root, u.Steps())] = true
		}
	}
	return listed
}

// lastField is the field that the steps lead to from a type. No step leads to the type as a whole.
func lastField(of *schema.Type, steps []string) field {
	at := field{of: of.Name}
	for _, step := range steps {
		if step == "*" {
			continue
		}
		i := slices.IndexFunc(of.Fields, func(f schema.Field) bool { return f.Name == step })
		at = field{of.Name, step}
		of = schema.Types()[of.Fields[i].TypeRef]
	}
	return at
}
