package e2e

import (
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/stack"
)

// asReferred holds the metrics that a program has now to docs/metrics.md: their types, and the
// labels of those that have a series.
func asReferred(t *testing.T, p *stack.Program) {
	t.Helper()
	text, err := os.ReadFile("../../../docs/metrics.md")
	require.NoError(t, err)
	types, labels := map[string]string{}, map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(pgmesh_\\w+)(?:\\{([a-z_,]+)\\})?` \\| (\\w+) \\|").FindAllStringSubmatch(string(text), -1) {
		labels[row[1]], types[row[1]] = row[2], row[3]
	}
	status, page, err := fetch(t.Context(), "http://"+p.HTTP()+"/metrics")
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status)
	found := regexp.MustCompile(`(?m)^# TYPE (pgmesh_\w+) (\w+)$`).FindAllStringSubmatch(page, -1)
	require.NotEmpty(t, found)
	for _, metric := range found {
		require.Equal(t, types[metric[1]], metric[2], metric[1])
		series := regexp.MustCompile(`(?m)^` + metric[1] + `(?:_bucket)?(?:\{(.*)\})? `).FindStringSubmatch(page)
		require.NotNil(t, series, metric[1])
		names := map[string]bool{}
		for _, label := range regexp.MustCompile(`(\w+)="`).FindAllStringSubmatch(series[1], -1) {
			names[label[1]] = label[1] != "le"
		}
		maps.DeleteFunc(names, func(_ string, of bool) bool { return !of })
		require.Equal(t, labels[metric[1]], strings.Join(slices.Sorted(maps.Keys(names)), ","), metric[1])
	}
}
