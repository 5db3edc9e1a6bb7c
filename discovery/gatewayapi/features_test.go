package gatewayapi_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/discovery/gatewayapi"
)

// The documentation lists what a class supports, and nothing of that as missing.
func TestFeaturesAreDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/support.md")
	require.NoError(t, err)
	_, section, found := strings.Cut(string(page), "## The features of the Gateway API\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	supported, missing, found := strings.Cut(section, "| not supported |")
	require.True(t, found)
	class := parsed(t, "apiVersion: gateway.networking.k8s.io/v1\nkind: GatewayClass\nmetadata: {name: c}\nspec: {controllerName: pgmesh.io/gateway-controller}\n")["GatewayClass c"]
	var claimed []string
	for _, f := range gatewayapi.StatusOfClass(class).SupportedFeatures {
		claimed = append(claimed, f.Name)
	}
	name := regexp.MustCompile("`([A-Z][A-Za-z0-9]+)`")
	listed := func(text string) (names []string) {
		for _, match := range name.FindAllStringSubmatch(text, -1) {
			names = append(names, match[1])
		}
		return names
	}
	require.ElementsMatch(t, claimed, listed(supported))
	require.False(t, slices.ContainsFunc(listed(missing), func(feature string) bool { return slices.Contains(claimed, feature) }))
}
