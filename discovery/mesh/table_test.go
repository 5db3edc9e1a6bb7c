package mesh

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTablesHoldWhatMapsWouldHold makes random edits, and holds every table that there was against the
// map that it stands for.
func TestTablesHoldWhatMapsWouldHold(t *testing.T) {
	t.Parallel()
	dice := rand.New(rand.NewPCG(1, 2))
	var now table[int, int]
	model := map[int]int{}
	var tables []table[int, int]
	var models []map[int]int
	for range 200 {
		edit := now.edit()
		if dice.IntN(4) == 0 {
			edit.expect(dice.IntN(200))
		}
		for range dice.IntN(40) {
			key, value := dice.IntN(300), dice.Int()
			if dice.IntN(3) == 0 {
				edit.remove(key)
				delete(model, key)
			} else {
				edit.set(key, value)
				model[key] = value
			}
		}
		now = edit.done()
		tables, models = append(tables, now), append(models, maps.Clone(model))
	}
	for i := range tables {
		require.Equal(t, models[i], maps.Collect(tables[i].each()))
		require.Len(t, models[i], tables[i].size)
		for key := range 300 {
			got, ok := tables[i].find(key)
			want, there := models[i][key]
			require.Equal(t, there, ok)
			require.Equal(t, want, got)
		}
	}
}

func TestListsArePatchedInTheirOrder(t *testing.T) {
	t.Parallel()
	dice := rand.New(rand.NewPCG(3, 4))
	const groups, apart = 100, 1_000_000 // numbers that are equal in order, and each of them once
	inGroups := func(a, b int) int { return a/apart - b/apart }
	list, next := []int{}, 0
	for range 300 {
		var gone, come []int
		for _, v := range list {
			if dice.IntN(5) == 0 {
				gone = append(gone, v)
			}
		}
		for range dice.IntN(6) {
			next++
			come = append(come, dice.IntN(groups)*apart+next)
		}
		dice.Shuffle(len(gone), func(i, j int) { gone[i], gone[j] = gone[j], gone[i] })
		want := append(without(list, gone), come...)
		before := append([]int{}, list...)
		after := patched(list, gone, come, inGroups)
		require.Equal(t, before, list, "the list itself stays")
		require.ElementsMatch(t, want, after)
		require.True(t, slices.IsSortedFunc(after, inGroups))
		x := exchangeOf(list, after)
		require.ElementsMatch(t, after, patched(list, x.Gone, x.Come, inGroups))
		list = after
	}
}
