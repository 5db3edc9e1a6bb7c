package served

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// spread changes names all over a large set, or neighbours, which fills pages and empties them.
func (l line) spread(rng *rand.Rand) line {
	next := maps.Clone(l.model)
	var upserts []*Resource
	var removed []string
	first, step := rng.IntN(5000), 1+rng.IntN(20)
	for i := range rng.IntN(2500) {
		name := fmt.Sprintf("n%04d", (first+i*step)%5000)
		if rng.IntN(2) == 0 || rng.IntN(3) == 0 {
			removed = append(removed, name)
			continue
		}
		version := fmt.Sprint(rng.IntN(3))
		upserts = append(upserts, &Resource{Name: name, Version: version})
		next[name] = version
	}
	for _, name := range removed {
		delete(next, name)
	}
	return line{l.set.With(upserts, removed), next}
}

func TestALargeSetHasWhatItsChangesMadeOfIt(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		rng := rand.New(rand.NewPCG(seed, 0))
		lines := []line{{NewSet(), map[string]string{}}}
		for range 40 {
			lines = append(lines, lines[max(0, len(lines)-1-rng.IntN(3))].spread(rng))
		}
		for _, l := range lines {
			require.Equal(t, l.model, versions(l.set), "seed %d", seed)
			require.Equal(t, len(l.model), l.set.Len())
			require.True(t, slices.IsSorted(l.set.Names()))
			for name := range l.model {
				require.Equal(t, name, l.set.Get(name).Name)
			}
			require.Nil(t, l.set.Get("n"))
			for _, page := range l.set.pages {
				require.NotEmpty(t, page)
				require.LessOrEqual(t, len(page), maxPageSize)
			}
			require.LessOrEqual(t, len(l.set.pages), 2+4*l.set.Len()/(maxPageSize/2), "pages that have become small are joined")
		}
	}
}

func TestAChangeSharesThePagesThatItDoesNotTouch(t *testing.T) {
	t.Parallel()
	var all []*Resource
	for i := range 10 * maxPageSize {
		all = append(all, &Resource{Name: fmt.Sprintf("n%05d", i), Version: "1"})
	}
	before := NewSet(all...)
	after := before.With([]*Resource{{Name: "n00700", Version: "2"}}, nil)
	shared := 0
	for i := range before.pages {
		if &before.pages[i][0] == &after.pages[i][0] {
			shared++
		}
	}
	require.Equal(t, len(before.pages)-1, shared)
	require.Equal(t, "1", before.Get("n00700").Version)
	require.Equal(t, "2", after.Get("n00700").Version)
}

// BenchmarkOneChangeOf100000 measures a change of one resource in the set of a large mesh.
func BenchmarkOneChangeOf100000(b *testing.B) {
	var all []*Resource
	for i := range 100_000 {
		all = append(all, &Resource{Name: fmt.Sprint("default/service-", i)})
	}
	s := NewSet(all...)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		s = s.With([]*Resource{{Name: all[i*7919%len(all)].Name, Version: fmt.Sprint(i)}}, nil)
	}
}

// A branch with a few resources of its own goes on sharing pages with its trunk, however both
// change.
func TestABranchSharesThePagesOfItsTrunk(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 1))
		name := func() string { return fmt.Sprintf("n%05d", rng.IntN(20_000)) }
		var all []*Resource
		for range 1 + rng.IntN(3000) {
			all = append(all, &Resource{Name: name(), Version: "1"})
		}
		trunk := NewSet(all...)
		own := []*Resource{{Name: "a", Version: "1"}, {Name: "b", Version: "1"}}
		branch := trunk.Branch().WithAsIn(trunk, own, nil)
		for i := range 100 {
			upserts, gone := []*Resource{{Name: name(), Version: fmt.Sprint(i)}}, []string{name()}
			trunk = trunk.With(upserts, gone)
			branch = branch.WithAsIn(trunk, upserts, gone)
			want := versions(trunk)
			want["a"], want["b"] = "1", "1"
			require.Equal(t, want, versions(branch), "seed %d", seed)
			require.Equal(t, len(want), branch.Len())
			require.True(t, slices.IsSorted(branch.Names()))
		}
		if trunk.Len() > 2*maxPageSize {
			require.GreaterOrEqual(t, sharedPages(branch, trunk), len(trunk.pages)-2, "seed %d", seed)
		}
	}
}

func sharedPages(a, b *Set) (shared int) {
	for _, page := range a.pages {
		if slices.ContainsFunc(b.pages, func(other []*Resource) bool { return &other[0] == &page[0] }) {
			shared++
		}
	}
	return shared
}
