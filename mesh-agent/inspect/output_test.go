package inspect_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/pgmesh/pgmesh/mesh-agent/inspect"
)

// Envoy's errors contain text from others.
func TestYAMLTakesEveryCharacter(t *testing.T) {
	t.Parallel()
	said := "\x00\x1b\x7f\u0085\u009b\u202e\ufffe\U000e0041 \n\t."
	var b strings.Builder
	require.NoError(t, inspect.Print(&b, "yaml", map[string]string{"said": said}, nil))
	var is map[string]string
	require.NoError(t, yaml.Unmarshal([]byte(b.String()), &is))
	require.Equal(t, said, is["said"])
}
