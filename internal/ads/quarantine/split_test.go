package quarantine

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAReasonMentionsWholeNames(t *testing.T) {
	t.Parallel()
	for text, mentioned := range map[string]bool{
		"":                                  false,
		"a.b":                               true,
		"Error adding listener(s) a.b: no":  true,
		"of 'a.b', and of others":           true,
		"it is a.b.":                        true,
		"it is a.b.\nIt is":                 true,
		"a.b.c":                             false,
		"a.b:80":                            false,
		"xa.b":                              false,
		"x/a.b":                             false,
		"a.b/x":                             false,
		"a.b-x, but also a.b":               true,
		"outbound|80||a.b":                  false,
		"[a.b]":                             true,
		"a.bc a.b_ a.b~ a.b% a.b* 0a.b A.b": false,
	} {
		require.Equal(t, mentioned, mentions(text, "a.b"), text)
	}
	require.False(t, mentions("anything", ""))
}

// A reason that mentions nearly everything tells nothing.
func TestAReasonThatMentionsTooManyIsNoHelp(t *testing.T) {
	t.Parallel()
	var names []string
	for i := range 300 {
		names = append(names, fmt.Sprintf("n%03d", i))
	}
	require.Len(t, split(names, strings.Join(names[:maxGuessed], ", ")), 1+maxGuessed)
	require.Len(t, split(names, strings.Join(names[:maxGuessed+1], ", ")), 2)
	require.Len(t, split(names, strings.Repeat("x", maxSearched)+" n001"), 2, "of a very long reason the end is not read")
}
