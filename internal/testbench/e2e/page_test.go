package e2e

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// page has the blocks of a page that people paste, by language.
func page(t *testing.T, file string, replaced ...string) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	blocks := map[string][]string{}
	for _, m := range regexp.MustCompile("(?ms)^```([a-z]+)\n(.*?)^```$").FindAllStringSubmatch(string(text), -1) {
		blocks[m[1]] = append(blocks[m[1]], strings.NewReplacer(replaced...).Replace(m[2]))
	}
	return blocks
}

// blockWith is the first block of a page that contains a text.
func blockWith(t testing.TB, blocks []string, text string) string {
	t.Helper()
	at := slices.IndexFunc(blocks, func(block string) bool { return strings.Contains(block, text) })
	require.GreaterOrEqual(t, at, 0, "the page has no block with %q", text)
	return blocks[at]
}
