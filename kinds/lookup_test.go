package kinds_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/kinds"
)

func TestLookup(t *testing.T) {
	t.Parallel()
	istio, ok := kinds.Lookup("networking.istio.io", "Gateway")
	require.True(t, ok)
	other, ok := kinds.Lookup("gateway.networking.k8s.io", "Gateway")
	require.True(t, ok)
	require.NotSame(t, istio, other)
	_, ok = kinds.Lookup("networking.istio.io", "HTTPRoute")
	require.False(t, ok)
}

func TestByTypeURL(t *testing.T) {
	t.Parallel()
	for _, k := range kinds.All() {
		for _, url := range k.TypeURLs() {
			found, ok := kinds.ByTypeURL(url)
			require.True(t, ok, url)
			require.Same(t, k, found, url)
		}
	}
	_, ok := kinds.ByTypeURL("type.googleapis.com/istio.networking.v1alpha3.VirtualService")
	require.False(t, ok)
}

func TestByName(t *testing.T) {
	t.Parallel()
	for word, want := range map[string]string{
		"vs":                                  "networking.istio.io/v1/VirtualService",
		"VirtualService":                      "networking.istio.io/v1/VirtualService",
		"virtualservices":                     "networking.istio.io/v1/VirtualService",
		"virtualservices.networking.istio.io": "networking.istio.io/v1/VirtualService",
		"vs.networking.istio.io":              "networking.istio.io/v1/VirtualService",
		"GTW.gateway.networking.k8s.io":       "gateway.networking.k8s.io/v1/Gateway",
		"gateway":                             "networking.istio.io/v1/Gateway",
		"gw":                                  "networking.istio.io/v1/Gateway",
		"gtw":                                 "gateway.networking.k8s.io/v1/Gateway",
		"gateways.gateway.networking.k8s.io":  "gateway.networking.k8s.io/v1/Gateway",
		"Gateway.gateway.networking.k8s.io":   "gateway.networking.k8s.io/v1/Gateway",
		"se":                                  "networking.istio.io/v1/ServiceEntry",
		"telemetry":                           "telemetry.istio.io/v1/Telemetry",
		"meshconfig":                          "core/v1alpha1/MeshConfig",
	} {
		k, err := kinds.ByName(word)
		require.NoError(t, err)
		require.Equal(t, want, k.TypeURL())
	}
}

func TestByNameExplains(t *testing.T) {
	t.Parallel()
	_, err := kinds.ByName("virtualsevice")
	require.EqualError(t, err, `unknown kind "virtualsevice" (did you mean "VirtualService"?)`)
	_, err = kinds.ByName("Services")
	require.EqualError(t, err, `unknown kind "Services" (here it is a ServiceEntry, which mcp-client convert makes; mcp-client services lists services with their endpoints)`)
	_, err = kinds.ByName("nonsense")
	require.EqualError(t, err, `unknown kind "nonsense" (mcp-client kinds lists them)`)
}

func TestByAPIVersionExplains(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ apiVersion, kind, want string }{
		{"networking.istio.io/v2", "VirtualService", `unknown version "v2" of VirtualService.networking.istio.io (one of v1, v1alpha3, v1beta1)`},
		{"networking.istio.io", "VirtualService", `unknown version "" of VirtualService.networking.istio.io (one of v1, v1alpha3, v1beta1)`},
		{"apps/v1", "VirtualService", `unknown apiVersion "apps/v1" of VirtualService (write networking.istio.io/v1)`},
		{"v1", "Gateway", `unknown apiVersion "v1" of Gateway (write networking.istio.io/v1 or gateway.networking.k8s.io/v1)`},
		{"networking.istio.io/v1", "VirtualServce", `unknown kind "VirtualServce" (did you mean "VirtualService"?)`},
	} {
		_, err := kinds.ByAPIVersion(c.apiVersion, c.kind)
		require.EqualError(t, err, c.want)
	}
}

func TestQualifiedPluralNamesOneKind(t *testing.T) {
	t.Parallel()
	for _, k := range kinds.All() {
		found, err := kinds.ByName(k.Plural + "." + k.Group)
		require.NoError(t, err)
		require.Same(t, k, found)
	}
}
