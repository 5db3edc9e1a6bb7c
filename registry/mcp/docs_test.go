package mcp

import (
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/kit/reload"
	"github.com/pgmesh/pgmesh/registry/registrytest"
)

// section is what docs/registries.md says of other MCP servers.
func section(t *testing.T) string {
	t.Helper()
	_, text, found := strings.Cut(registrytest.ReadPage(t, "../../docs/registries.md").Text, "\n## Another MCP server\n")
	require.True(t, found)
	text, _, _ = strings.Cut(text, "\n## ")
	return text
}

// The section has each parameter of the URL, with its default, and no other.
func TestTheSectionHasTheParameters(t *testing.T) {
	t.Parallel()
	_, table, _ := strings.Cut(section(t), "### The URL\n")
	found := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| (`[^|]*) \\| (.*) \\|$").FindAllStringSubmatch(table, -1) {
		for _, name := range regexp.MustCompile("`([a-z-]+)`").FindAllStringSubmatch(row[1], -1) {
			found[name[1]] = row[2]
		}
	}
	require.Equal(t, slices.Sorted(maps.Keys(known)), slices.Sorted(maps.Keys(found)))
	for name, otherwise := range map[string]string{
		"name": Scheme, "kinds": serviceEntry.Plural, "hold-empty": defaultHoldEmpty.String(), "timeout": defaultPatience.String(),
	} {
		require.Contains(t, found[name], ": `"+otherwise+"`", name)
	}
}

// What is run in the section can be read.
func TestTheURLsOfTheSection(t *testing.T) {
	t.Parallel()
	urls := regexp.MustCompile(`mcp://[a-z0-9.:,]+[^ '`+"`"+`\n]*`).FindAllString(section(t), -1)
	require.Len(t, urls, 4)
	for _, each := range urls {
		at, err := url.Parse(each)
		require.NoError(t, err)
		s, err := read(at)
		require.NoError(t, err, each)
		if !s.dial.TLS.Given() {
			_, err = Open(at, reload.Options{})
			require.NoError(t, err, each)
		}
	}
}
