package selector

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMatches(t *testing.T) {
	t.Parallel()
	labels := map[string]string{"app": "reviews", "example.com/tier": "back", "empty": ""}
	for text, want := range map[string]bool{
		"":                            true,
		"app=reviews":                 true,
		"app==reviews":                true,
		"app = ratings":               false,
		"app!=ratings":                true,
		"nothing!=ratings":            true,
		"app!=reviews":                false,
		"app":                         true,
		"!app":                        false,
		"! legacy":                    true,
		"app in (ratings, reviews)":   true,
		"app notin (ratings,reviews)": false,
		"legacy notin (a)":            true,
		"legacy in (a)":               false,
		"empty=":                      true,
		"app in (ratings,reviews),example.com/tier=back,!legacy": true,
		"app=reviews,example.com/tier=front":                     false,
	} {
		s, err := Parse(text)
		require.NoError(t, err, text)
		require.Equal(t, want, s.Matches(labels), text)
	}
}

func TestWhatIsNotASelectorIsRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{",", "a,", "=x", "a=b=c", "a in b", "a in (b", "a in (b c)", "a b", "!a=b", "-a"} {
		_, err := Parse(text)
		require.ErrorContains(t, err, "label selector", text)
	}
}
