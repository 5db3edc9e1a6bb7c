package schema_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/pgmesh/pgmesh/kinds/schema"
)

func TestFormats(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../testdata/formats.yaml")
	require.NoError(t, err)
	var examples map[string]struct{ Good, Bad []string }
	require.NoError(t, yaml.Unmarshal(text, &examples))
	for name, e := range examples {
		format := schema.Formats()[name]
		require.NotNil(t, format, name)
		// As a list item: an empty string that is the value of a field counts as absent.
		list := &schema.Type{Fields: []schema.Field{{Name: "list", Type: schema.String, Repeated: true, Format: format}}}
		wrong := func(s string) []schema.Problem {
			_, problems := schema.Check(list, "", map[string]any{"list": []any{s}})
			return problems
		}
		for _, s := range e.Good {
			require.Empty(t, wrong(s), "%s: %q", name, s)
		}
		for _, s := range e.Bad {
			require.Len(t, wrong(s), 1, "%s: %q", name, s)
		}
	}
}
