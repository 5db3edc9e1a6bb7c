package registrytest

import (
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/kinds"
)

var update = flag.Bool("update", false, "write what the example of the registry's page becomes into the page")

// Page is the page of a registry in docs/, as text.
type Page struct{ path, Text string }

// ReadPage reads a page.
func ReadPage(t *testing.T, path string) Page {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return Page{path, string(text)}
}

// Block is the one block of the page in a language.
func (p Page) Block(t *testing.T, language string) string {
	t.Helper()
	found := regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```$").FindAllStringSubmatch(p.Text, -1)
	require.Len(t, found, 1)
	return found[0][1]
}

// Becomes requires that a resource is what the page says that its example becomes.
func (p Page) Becomes(t *testing.T, r *kinds.Resource) {
	t.Helper()
	got, err := kinds.MarshalYAML(r)
	require.NoError(t, err)
	want := p.Block(t, "yaml")
	if *update {
		require.NoError(t, os.WriteFile(p.path, []byte(strings.Replace(p.Text, "```yaml\n"+want, "```yaml\n"+string(got), 1)), 0o644))
		return
	}
	require.Equal(t, want, string(got), "run the test with -update to write it")
}
