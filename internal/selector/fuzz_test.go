package selector

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What can be read means something: there are labels that meet each requirement of it, and labels
// that do not.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"app=reviews,tier!=front,version in (v1, v2),env notin (test),canary,!legacy", "a==b", "a=", "a in ()", "a in (b,,c)", "a in (b", ",", "ä=b", "a=b,",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse(text)
		if err != nil {
			return
		}
		for _, r := range s {
			present := map[string]string{r.Key: "a value of no requirement, for it has spaces"}
			if r.Values != nil {
				present[r.Key] = r.Values[0]
			}
			require.NotEqual(t, Selector{r}.Matches(present), Selector{r}.Matches(nil), "%+v", r)
			require.Equal(t, !r.Absent, Selector{r}.Matches(present))
		}
		again, err := Parse("  " + strings.TrimSpace(text) + "\t")
		require.NoError(t, err)
		require.Equal(t, s, again)
	})
}
