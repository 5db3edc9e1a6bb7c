package zookeeper

import (
	"flag"
	"fmt"
	"maps"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/kit/reload"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/registry/zookeeper/tree"
)

var update = flag.Bool("update", false, "write what the instance in docs/zookeeper.md becomes into it")

const page = "../../docs/zookeeper.md"

func readPage(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	return string(text)
}

// block is the one example of the page in a language.
func block(t *testing.T, text, language string) string {
	t.Helper()
	found := regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllStringSubmatch(text, -1)
	require.Len(t, found, 1)
	return found[0][1]
}

// The instance of docs/zookeeper.md becomes what the page says.
func TestTheInstanceOfThePage(t *testing.T) {
	t.Parallel()
	text := readPage(t)
	m, sink := newMesh(t, "region=eu")
	m.Told([]tree.Leaf{{Path: "web/0c6c7d1e", Content: []byte(block(t, text, "json"))}})
	require.Empty(t, sink.bad)
	sink.entries(t)
	got, err := kinds.MarshalYAML(sink.all["zookeeper.web"])
	require.NoError(t, err)
	want := block(t, text, "yaml")
	if *update {
		require.NoError(t, os.WriteFile(page, []byte(strings.Replace(text, want, string(got), 1)), 0o644))
		return
	}
	require.Equal(t, want, string(got), "run the test with -update to write it")
}

// The providers of the page have the hosts and ports beside them.
func TestTheProvidersOfThePage(t *testing.T) {
	t.Parallel()
	for line := range strings.Lines(block(t, readPage(t), "text")) {
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
	text := readPage(t)
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
