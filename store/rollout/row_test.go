package rollout

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// Whatever a proxy says of itself, Postgres takes it, and it is not large.
func FuzzTexts(f *testing.F) {
	for _, seed := range []string{"", "cart", "a\x00b", "\xff\xfe", strings.Repeat("ä", mostText), strings.Repeat("\xff", mostText+1), "x" + strings.Repeat("\U0001F600", mostText)} {
		f.Add(seed, "value")
		f.Add("key", seed)
	}
	f.Fuzz(func(t *testing.T, key, value string) {
		requireStorable(t, text(value))
		require.LessOrEqual(t, len(words(value)), mostWords)
		require.True(t, utf8.ValidString(words(value)))
		of := Resource{key, value, key, value}
		requireStorable(t, of.bounded().Name)
		refusals, err := json.Marshal(refusalRows([]Refusal{{TypeURL: key, Resource: value, Reason: value, Sources: []Source{{of, value}}}}))
		require.NoError(t, err)
		require.NotContains(t, string(refusals), `\u0000`)
		size := 0
		for k, v := range labels(map[string]string{key: value, key + "2": value, value: key}) {
			requireStorable(t, k)
			requireStorable(t, v)
			size += len(k) + len(v)
		}
		require.LessOrEqual(t, size, 3*mostLabels, "each byte that Postgres does not take becomes three")
	})
}

func requireStorable(t *testing.T, s string) {
	t.Helper()
	require.True(t, utf8.ValidString(s))
	require.NotContains(t, s, "\x00")
	require.LessOrEqual(t, len(s), mostText)
}
