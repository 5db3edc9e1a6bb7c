package output_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/pgmesh/pgmesh/internal/testbench/clitest"
)

func TestJSONPathMatchesKubectl(t *testing.T) {
	t.Parallel()
	m := clitest.Bookinfo(t)
	for template, want := range map[string]string{
		"{.items[*].metadata.name}":                                                      "ratings reviews",
		"{.items[0].spec.hosts[0]}":                                                      "ratings.example.com",
		"{.items[0].spec.http[0].route[0].weight}":                                       "100",
		`{range .items[*]}{.metadata.namespace}/{.metadata.name}{"\n"}{end}`:             "default/ratings\ndefault/reviews\n",
		`{.items[?(@.metadata.name=="reviews")].spec.http[*].route[*].destination.host}`: "reviews-v1",
		"{.items[*].spec.http[*].route[?(@.weight>50)].destination.host}":                "ratings-v1 reviews-v1",
		"{.items[0].metadata.labels}":                                                    `{"app":"ratings"}`,
		"{.items[0].nothing.here}":                                                       "",
		"items[1].kind":                                                                  "VirtualService",
		".items[1].kind":                                                                 "VirtualService",
	} {
		require.Equal(t, want, m.OK("get", "vs", "-o", "jsonpath="+template), template)
	}
	require.Equal(t, "reviews.example.com", m.OK("get", "vs", "reviews", "-o", "jsonpath={.spec.hosts[0]}"), "what is asked for by name is itself")
	require.Equal(t, "reviews", m.OK("get", "dr", "-o", "jsonpath={.items[*].spec.host}"), "what is not is a list, be it of one")
	require.Empty(t, m.OK("get", "wasmplugins", "-o", "jsonpath={.items[*].spec.host}"))
	require.JSONEq(t, `{"apiVersion": "v1", "kind": "List", "items": []}`, m.OK("get", "wasmplugins", "-o", "json"))
}

func TestCustomColumns(t *testing.T) {
	t.Parallel()
	m := clitest.Bookinfo(t)
	require.Equal(t, "NAME      TO           TIMEOUT\nratings   ratings-v1   <none>\nreviews   reviews-v1   <none>\n",
		m.OK("get", "vs", "-o", "custom-columns=NAME:.metadata.name,TO:{.spec.http[*].route[*].destination.host},TIMEOUT:.spec.http[0].timeout"))
	require.Equal(t, "A\nreviews\n", m.OK("get", "dr", "reviews", "-o", "custom-columns=A:.metadata.name"))
	require.Equal(t, "KIND\n", m.OK("get", "wasmplugins", "-o", "custom-columns=KIND:.kind"))
	require.Contains(t, clitest.Run(t.Context(), "", nil, "kinds", "-o", "custom-columns=K:.kind,S:.shortNames").Out, `VirtualService          ["vs"]`)
}

func TestAnswersInEachFormat(t *testing.T) {
	t.Parallel()
	m := clitest.Start(t)
	require.Equal(t, "1", m.Pipe(clitest.VirtualService("default", "a", "b"), "apply", "-f", "-", "-o", "jsonpath={.revision}").Out)
	r := m.Pipe(clitest.VirtualService("default", "a", "c"), "apply", "-f", "-", "-o", "yaml")
	require.Zero(t, r.Code, r.Err)
	require.Contains(t, r.Out, "revision: 2\noutcomes:\n- action: configured\n  group: networking.istio.io\n")
	var read struct{ Warnings []struct{ Message string } }
	require.NoError(t, yaml.Unmarshal([]byte(r.Out), &read))
	require.Contains(t, read.Warnings[0].Message, `has the host "c.default.svc.cluster.local"`)
	require.Equal(t, "unknown-host", m.Run("problems", "-o", "jsonpath={[*].code}").Out)
}

func TestInvalidFormatIsRefused(t *testing.T) {
	t.Parallel()
	for format, told := range map[string]string{
		"xml":                  `unknown format "xml", expected one of table, wide, yaml, json, name, jsonpath=TEMPLATE, go-template=TEMPLATE, custom-columns=TITLE:PATH,...`,
		"table=x":              `unknown format "table=x"`,
		"jsonpath":             "it needs a template, such as jsonpath='{.spec.hosts[0]}'",
		"jsonpath={.a":         "the template {.a: unclosed action",
		"custom-columns=A":     `the column "A" is not of the form TITLE:PATH`,
		"custom-columns=A:{.x": "unclosed action",
	} {
		r := clitest.Run(t.Context(), "", nil, "get", "vs", "-o", format)
		require.Equal(t, 2, r.Code, r.Err)
		require.Contains(t, r.Err, told)
	}
}

func TestColours(t *testing.T) {
	t.Parallel()
	m := clitest.Bookinfo(t)
	colored := func(env map[string]string, args ...string) bool {
		r := clitest.Run(t.Context(), "", env, append([]string{"watch", "vs", "--count", "1", "--server", m.Address, "--insecure"}, args...)...)
		require.Zero(t, r.Code, r.Err)
		return r.Out[0] == '\x1b'
	}
	require.False(t, colored(nil), "nobody looks at a buffer")
	require.True(t, colored(nil, "--color", "always"))
	require.True(t, colored(map[string]string{"PGMESH_COLOR": "always", "NO_COLOR": "1"}))
	require.False(t, colored(map[string]string{"PGMESH_COLOR": "always"}, "--color=never"))
	require.Equal(t, 2, clitest.Run(t.Context(), "", nil, "watch", "--color=blue").Code)
}

// A reader that closes the pipe, such as head, is no error.
func TestBrokenPipeIsSilent(t *testing.T) {
	t.Parallel()
	m := clitest.Bookinfo(t)
	read, write, err := os.Pipe()
	require.NoError(t, err)
	require.NoError(t, read.Close())
	t.Cleanup(func() { write.Close() })
	r := clitest.RunTo(t.Context(), write, "get", "vs", "--server", m.Address, "--insecure")
	require.Equal(t, clitest.Result{Code: 141}, r)
}
