package nearest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/kit/nearest"
)

func TestWord(t *testing.T) {
	t.Parallel()
	known := []string{"weight", "destination", "timeout", "hosts", "host", "tls"}
	for word, want := range map[string]string{
		"wieght":        "weight",
		"timeOut":       "timeout",
		"hots":          "hosts",
		"hsot":          "",
		"hsots":         "hosts",
		"destinatonss":  "destination",
		"tsl":           "",
		"tl":            "tls",
		"":              "",
		"loadBalancing": "",
		"größe":         "",
	} {
		require.Equal(t, want, nearest.Word(word, known), word)
	}
}

func TestHint(t *testing.T) {
	t.Parallel()
	require.Equal(t, `did you mean "beta"?`, nearest.Hint("bet", []string{"alpha", "beta"}, "one of "))
	require.Equal(t, `one of alpha, beta`, nearest.Hint("gamma", []string{"alpha", "beta"}, "one of "))
}
