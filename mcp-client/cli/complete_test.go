package cli_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/clitest"
)

func TestCompletesKindsAndLiveNames(t *testing.T) {
	t.Parallel()
	m := clitest.Bookinfo(t)
	env := map[string]string{"PGMESH_SERVER": m.Address, "PGMESH_INSECURE": "true"}
	for want, args := range map[string][]string{
		"virtualservices\n:4\n":                              {"get", "virtuals"},
		"gateways\ngateways.gateway.networking.k8s.io\n:4\n": {"watch", "gateways"},
		"ratings\nreviews\n:4\n":                             {"get", "vs", ""},
		"reviews\n:4\n":                                      {"delete", "-n", "prod", "vs", "rev"},
		"vs/ratings\nvs/reviews\n:4\n":                       {"get", "vs/"},
		"dr/reviews\n:4\n":                                   {"get", "vs/reviews", "dr/"},
		"table\nwide\nyaml\njson\nname\nterraform\njsonpath=\ngo-template=\ncustom-columns=\n:6\n":     {"get", "-o", ""},
		"table\nwide\nyaml\njson\nname\nsarif\ngithub\njsonpath=\ngo-template=\ncustom-columns=\n:6\n": {"problems", "-o", ""},
		"table\nwide\nyaml\njson\nname\njsonpath=\ngo-template=\ncustom-columns=\n:6\n":                {"history", "-o", ""},
		"default\nprod\n:4\n":       {"get", "vs", "-n", ""},
		"httproutes\n:4\n":          {"watch", "dr", "httpr"},
		"auto\nalways\nnever\n:4\n": {"get", "--color", ""},
		":1\n":                      {"get", "nothing/"},
	} {
		r := clitest.Run(t.Context(), "", env, append([]string{"__complete"}, args...)...)
		require.Zero(t, r.Code, r.Err)
		require.Equal(t, want, r.Out, "%v", args)
	}
}

func TestKindsAndVersion(t *testing.T) {
	t.Parallel()
	require.Contains(t, clitest.Run(t.Context(), "", nil, "kinds").Out, "virtualservices                      vs                networking.istio.io/v1")
	require.Contains(t, clitest.Run(t.Context(), "", nil, "kinds", "-o", "wide").Out, "networking.istio.io/v1,v1alpha3,v1beta1")
	require.Contains(t, clitest.Run(t.Context(), "", nil, "kinds", "-o", "json").Out, `"shortNames"`)
	require.Contains(t, clitest.Run(t.Context(), "", nil, "kinds", "-o", "name").Out, "gateways.gateway.networking.k8s.io\n")
	require.Regexp(t, `^mcp-client \S+ go1\.`, clitest.Run(t.Context(), "", nil, "version").Out)
	require.Equal(t, clitest.Run(t.Context(), "", nil, "version"), clitest.Run(t.Context(), "", nil, "--version"))
	require.Equal(t, clitest.Run(t.Context(), "", nil, "version", "-o", "json"), clitest.Run(t.Context(), "", nil, "-o", "json", "--version"))
	require.Regexp(t, `^\{\n  "version": "[^"]+",\n(  "commit": "[0-9a-f]+",\n(  "modified": true,\n)?)?  "go": "go1\.`, clitest.Run(t.Context(), "", nil, "version", "-o", "json").Out)
	help := clitest.Run(t.Context(), "", nil, "--help")
	require.Zero(t, help.Code)
	require.Contains(t, help.Out, "3    refused")
	require.Contains(t, help.Out, "PGMESH_SERVER")
}
