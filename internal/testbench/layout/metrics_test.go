package layout

import (
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A metric's name is written in full where it is made, so that grep finds it.
func TestMetricsStandInFullWhereTheyAreMade(t *testing.T) {
	t.Parallel()
	var code strings.Builder
	for _, program := range programs {
		require.NoError(t, filepath.WalkDir(filepath.Join("../../..", program), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text := read(t, path)
			for _, pieces := range []string{`Subsystem:`, `prometheus\.\w+Opts\{[^}]*Namespace:`, `WrapRegistererWithPrefix\(`, `BuildFQName\(`, `(?:Name:|NewDesc\()\s*"pgmesh_\w*" \+`} {
				require.NotRegexp(t, pieces, text, "%s puts the name of a metric together: write it in full", path)
			}
			code.WriteString(text)
			return nil
		}))
	}
	found := 0
	for _, page := range pagesOfDocs(t) {
		for _, name := range regexp.MustCompile(`pgmesh_(?:mcp_server|discovery|mesh_agent|panics|rollout)_\w+`).FindAllString(read(t, page), -1) {
			found++
			name = regexp.MustCompile(`_(bucket|count|sum)$`).ReplaceAllString(name, "")
			require.Contains(t, code.String(), `"`+name+`"`, "%s names a metric that nothing makes", page)
		}
	}
	require.Greater(t, found, 100, "the metrics are not found any more")
}

// pagesOfDocs are the pages for people, without the changelog, which has names that are gone.
func pagesOfDocs(t *testing.T) (pages []string) {
	t.Helper()
	for _, pattern := range []string{"README.md", "docs/*.md", "docs/decisions/*.md", "identity/*.md"} {
		found, err := filepath.Glob("../../../" + pattern)
		require.NoError(t, err)
		pages = append(pages, found...)
	}
	return pages
}
