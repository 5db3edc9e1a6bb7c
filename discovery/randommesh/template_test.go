package randommesh

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each alternative can stand in its place while the others are the first of theirs.
func TestTheTemplateIsValidWithEachAlternative(t *testing.T) {
	t.Parallel()
	for _, f := range slices.Concat(NewTemplate(t).forms, NewRivals().forms) {
		_, err := f.draft(make([]int, len(f.places)))
		require.NoError(t, err)
		for i, alternatives := range f.places {
			for chosen := range alternatives {
				choices := make([]int, len(f.places))
				choices[i] = chosen
				if _, err := f.draft(choices); err != nil {
					t.Errorf("%v", err)
				}
			}
		}
	}
}
