package mesh

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTablesHoldWhatMapsWouldHold makes random edits, and compares every table so far with a map.
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
	const groups, apart = 100, 1_000_000 // numbers that are equal in order, and how far apart the groups are
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
		x := ExchangeOf(list, after)
		require.ElementsMatch(t, after, patched(list, x.Gone, x.Come, inGroups))
		require.True(t, x.KeepsOrder(list, after))
		list = after
	}
}

func TestAnExchangeKeepsTheOrderOfWhatStays(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		before, after []int
		want          bool
	}{
		{nil, nil, true},
		{[]int{1, 2, 3}, []int{1, 4, 3}, true},
		{[]int{1, 2, 3}, []int{3, 4}, true},
		{[]int{1, 2, 3}, []int{2, 1, 3}, false},
		{[]int{1, 2, 3, 4}, []int{1, 3, 5, 2, 4}, false},
	} {
		require.Equal(t, c.want, ExchangeOf(c.before, c.after).KeepsOrder(c.before, c.after), "%v, then %v", c.before, c.after)
	}
}
