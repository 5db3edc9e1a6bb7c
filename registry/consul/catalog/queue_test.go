package catalog

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func later(names ...string) (all []reading) {
	for _, name := range names {
		all = append(all, reading{name: name, later: true})
	}
	return all
}

// A sweep that is wanted again and again comes to each that it looks at.
func TestEachHasItsTurnHoweverOftenASweepIsWanted(t *testing.T) {
	t.Parallel()
	q := newQueue()
	var looked []string
	for range 8 {
		q.readLater(later("a", "b", "c", "d"))
		next, err := q.next(t.Context(), false)
		require.NoError(t, err)
		looked = append(looked, next.name)
	}
	require.Equal(t, []string{"a", "b", "c", "d", "a", "b", "c", "d"}, looked)
}

// What is to be looked at is what the last sweep wants, with what it knows.
func TestASweepTakesThePlaceOfTheOneBefore(t *testing.T) {
	t.Parallel()
	q := newQueue()
	q.readLater(later("gone", "stays"))
	q.readLater([]reading{{name: "new", later: true, round: 2}, {name: "stays", later: true, round: 2, known: 7}, {name: "gone", node: true, later: true, round: 2}})
	q.readNow("urgent")
	var all []reading
	for range 4 {
		next, err := q.next(t.Context(), false)
		require.NoError(t, err)
		all = append(all, next)
	}
	require.Equal(t, []reading{
		{name: "urgent"}, {name: "stays", later: true, round: 2, known: 7}, {name: "new", later: true, round: 2}, {name: "gone", node: true, later: true, round: 2},
	}, all)
	_, found, _ := q.take(false)
	require.False(t, found)
}
