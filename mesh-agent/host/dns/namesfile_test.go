package dns_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"

	meshdns "github.com/pgmesh/pgmesh/mesh-agent/host/dns"
)

func TestSavedNamesAreUsedAtStart(t *testing.T) {
	kept := filepath.Join(t.TempDir(), "names")
	t.Run("the first agent", func(t *testing.T) {
		a, _ := mesh(t, func(o *meshdns.Options) { o.NamesFile = kept })
		_, known := a.Known()
		require.True(t, known)
	})
	a := start(t, func(o *meshdns.Options) { o.NamesFile = kept })
	n, known := a.Known()
	require.Equal(t, 7, n)
	require.False(t, known, "they are those of yesterday")
	require.Len(t, a.ask(t, "reviews", dns.TypeA).Answer, 1)

	content, err := os.ReadFile(kept)
	require.NoError(t, err)
	content[len(content)-1]++
	require.NoError(t, os.WriteFile(kept, content, 0o600))
	a = start(t, func(o *meshdns.Options) { o.NamesFile = kept })
	n, _ = a.Known()
	require.Zero(t, n, "what is damaged is nothing")
}

func TestExplainWithoutAResolver(t *testing.T) {
	t.Parallel()
	a, _ := mesh(t, nil)
	lines, err := meshdns.Explain(t.Context(), a.at, "reviews.shop")
	require.NoError(t, err)
	require.Equal(t, "reviews.shop. A: 240.240.0.1", lines[0])
	_, err = meshdns.Explain(t.Context(), "127.0.0.1:1", "reviews")
	require.ErrorContains(t, err, "no resolver is at 127.0.0.1:1: does mesh-agent run with --dns?")
	_, err = meshdns.Explain(t.Context(), a.at, "a..b")
	require.ErrorContains(t, err, `"a..b" is no name of DNS`)
}
