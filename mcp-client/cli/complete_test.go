package cli_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCompletesKindsAndLiveNames(t *testing.T) {
	t.Parallel()
	m := bookinfo(t)
	env := map[string]string{"PGMESH_SERVER": m.address, "PGMESH_INSECURE": "true"}
	for want, args := range map[string][]string{
		"virtualservices\n:4\n":                              {"get", "virtuals"},
		"gateways\ngateways.gateway.networking.k8s.io\n:4\n": {"watch", "gateways"},
		"ratings\nreviews\n:4\n":                             {"get", "vs", ""},
		"reviews\n:4\n":                                      {"delete", "-n", "prod", "vs", "rev"},
		"vs/ratings\nvs/reviews\n:4\n":                       {"get", "vs/"},
		"dr/reviews\n:4\n":                                   {"get", "vs/reviews", "dr/"},
		"table\nwide\nyaml\njson\nname\njsonpath=\ncustom-columns=\n:6\n": {"get", "-o", ""},
		"httproutes\n:4\n":          {"watch", "dr", "httpr"},
		"auto\nalways\nnever\n:4\n": {"get", "--color", ""},
		":1\n":                      {"get", "nothing/"},
	} {
		r := run(t.Context(), "", env, append([]string{"__complete"}, args...)...)
		require.Zero(t, r.code, r.err)
		require.Equal(t, want, r.out, "%v", args)
	}
}

func TestKindsAndVersion(t *testing.T) {
	t.Parallel()
	require.Contains(t, run(t.Context(), "", nil, "kinds").out, "virtualservices                      vs                networking.istio.io/v1")
	require.Contains(t, run(t.Context(), "", nil, "kinds", "-o", "wide").out, "networking.istio.io/v1,v1alpha3,v1beta1")
	require.Contains(t, run(t.Context(), "", nil, "kinds", "-o", "json").out, `"shortNames"`)
	require.Contains(t, run(t.Context(), "", nil, "kinds", "-o", "name").out, "gateways.gateway.networking.k8s.io\n")
	require.Regexp(t, `^mcp-client \S+ go1\.`, run(t.Context(), "", nil, "version").out)
	help := run(t.Context(), "", nil, "--help")
	require.Zero(t, help.code)
	require.Contains(t, help.out, "3    refused")
	require.Contains(t, help.out, "PGMESH_SERVER")
}
