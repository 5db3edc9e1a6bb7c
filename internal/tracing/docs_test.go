package tracing_test

import (
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// The names of attributes are an interface, as those of metrics are.
func TestAttributesAreDocumented(t *testing.T) {
	t.Parallel()
	code, err := os.ReadFile("attributes.go")
	require.NoError(t, err)
	page, err := os.ReadFile("../../docs/traces.md")
	require.NoError(t, err)
	names := func(text []byte, form string) (all []string) {
		for _, found := range regexp.MustCompile(form).FindAllSubmatch(text, -1) {
			all = append(all, string(found[1]))
		}
		slices.Sort(all)
		return slices.Compact(all)
	}
	require.Equal(t, names(code, `"(pgmesh\.[a-z_.]+)"`), names(page, "`(pgmesh\\.[a-z_.]+)(?:=41)?`"))
}
