package zookeeper

import (
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/kit/reload"
	"github.com/pgmesh/pgmesh/registry/registrytest"
	"github.com/pgmesh/pgmesh/registry/zookeeper/tree"
)

func readPage(t *testing.T) registrytest.Page {
	t.Helper()
	return registrytest.ReadPage(t, "../../docs/zookeeper.md")
}

// The instance of docs/zookeeper.md becomes what the page says.
func TestTheInstanceOfThePage(t *testing.T) {
	t.Parallel()
	page := readPage(t)
	m, sink := newMesh(t, "region=eu")
	m.Told([]tree.Leaf{{Path: "web/0c6c7d1e", Content: []byte(page.Block(t, "json"))}})
	require.Empty(t, sink.bad)
	sink.entries(t)
	page.Becomes(t, sink.all["zookeeper.web"])
}

// The providers of the page have the hosts and ports beside them.
func TestTheProvidersOfThePage(t *testing.T) {
	t.Parallel()
	for line := range strings.Lines(readPage(t).Block(t, "text")) {
		provider, at, _ := strings.Cut(strings.TrimSpace(line), " ")
		entries, sink := providedBy(t, "", provider)
		require.Empty(t, sink.bad)
		require.Len(t, entries, 1)
		for host, entry := range entries {
			require.Equal(t, strings.TrimSpace(at), fmt.Sprintf("%s:%d", host, entry.GetPorts()[0].GetNumber()))
		}
	}
}

// The page has each parameter of the URL, and no other; what is run on it can be read.
func TestTheURLsOfThePage(t *testing.T) {
	t.Parallel()
	text := readPage(t).Text
	_, table, _ := strings.Cut(text, "## The URL\n")
	table, _, _ = strings.Cut(table, "\n## ")
	found := map[string]bool{}
	for _, row := range regexp.MustCompile(`(?m)^\| (`+"`"+`[^|]*) \|`).FindAllStringSubmatch(table, -1) {
		for _, name := range regexp.MustCompile("`([a-z-]+)`").FindAllStringSubmatch(row[1], -1) {
			found[name[1]] = true
		}
	}
	require.Equal(t, slices.Sorted(maps.Keys(known)), slices.Sorted(maps.Keys(found)))

	urls := regexp.MustCompile(`zookeeper://[a-z0-9.:,]+[^ '`+"`"+`\n]*`).FindAllString(text, -1)
	require.Greater(t, len(urls), 4)
	for _, each := range urls {
		at, err := url.Parse(each)
		require.NoError(t, err)
		s, err := read(at)
		require.NoError(t, err, each)
		if s.digest == "" {
			_, err = Open(at, reload.Options{})
			require.NoError(t, err, each)
		}
	}
}
