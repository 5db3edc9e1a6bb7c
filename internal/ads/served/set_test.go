package served

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// line is a set beside a map that went through the same changes.
type line struct {
	set   *Set
	model map[string]string
}

func versions(s *Set) map[string]string {
	m := map[string]string{}
	for r := range s.All() {
		m[r.Name] = r.Version
	}
	return m
}

// change adds and removes a few names, some of them without effect.
func (l line) change(rng *rand.Rand) line {
	next := maps.Clone(l.model)
	var upserts []*Resource
	var removed []string
	for range rng.IntN(4) {
		name, version := fmt.Sprint("n", rng.IntN(12)), fmt.Sprint(rng.IntN(3))
		upserts = append(upserts, &Resource{Name: name, Version: version})
		next[name] = version
	}
	for range rng.IntN(3) {
		name := fmt.Sprint("n", rng.IntN(12))
		removed = append(removed, name)
		delete(next, name)
	}
	return line{l.set.With(upserts, removed), next}
}

// differing lists the names under which two maps are not the same.
func differing(a, b map[string]string) []string {
	var names []string
	for n := range a {
		if b[n] != a[n] {
			names = append(names, n)
		}
	}
	for n := range b {
		if _, both := a[n]; !both {
			names = append(names, n)
		}
	}
	return names
}

func TestASetHasWhatItsChangesMadeOfIt(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 0))
		lines := []line{{nil, map[string]string{}}, {NewSet(), map[string]string{}}}
		for range 40 {
			from := lines[rng.IntN(len(lines))] // often not the newest: a line may fork
			lines = append(lines, from.change(rng))
		}
		for _, l := range lines {
			require.Equal(t, l.model, versions(l.set), "seed %d", seed)
			require.Equal(t, len(l.model), l.set.Len())
			old := lines[rng.IntN(len(lines))]
			if names, exact := l.set.ChangedSince(old.set); exact {
				for _, n := range differing(old.model, l.model) {
					require.Contains(t, names, n, "seed %d", seed)
				}
			}
		}
	}
}

func TestASetIsInTheOrderOfNames(t *testing.T) {
	t.Parallel()
	s := NewSet(&Resource{Name: "b"}, &Resource{Name: "a/b"}, &Resource{Name: ""}, &Resource{Name: "a"})
	require.Equal(t, []string{"", "a", "a/b", "b"}, s.Names())
	for r := range s.All() {
		require.Empty(t, r.Name)
		break
	}
	require.Nil(t, s.Get("c"))
	require.Empty(t, slices.Collect((*Set)(nil).All()))
}

func TestWithoutAChangeASetStaysItself(t *testing.T) {
	t.Parallel()
	s := NewSet(&Resource{Name: "a", Version: "1"})
	require.Same(t, s, s.With([]*Resource{{Name: "a", Version: "1"}}, []string{"b"}))
}

func TestASetListsWhatChangedSinceAnOlderOne(t *testing.T) {
	t.Parallel()
	first := NewSet(&Resource{Name: "a", Version: "1"}, &Resource{Name: "b", Version: "1"})
	second := first.With([]*Resource{{Name: "a", Version: "2"}}, nil)
	third := second.With(nil, []string{"b"})
	names, exact := third.ChangedSince(first)
	require.True(t, exact)
	require.Equal(t, []string{"a", "b"}, names)

	fork := second.With(nil, []string{"a"})
	_, exact = fork.ChangedSince(second)
	require.False(t, exact, "a fork begins a line of its own")
	_, exact = first.ChangedSince(third)
	require.False(t, exact, "a successor is not an ancestor")
	fourth := third.With([]*Resource{{Name: "c"}}, nil)
	_, exact = fourth.ChangedSince(first)
	require.True(t, exact, "a fork does not end the line that it left")
}

func TestTheSetOfAClientDoesNotEndTheLog(t *testing.T) {
	t.Parallel()
	first := NewSet(&Resource{Name: "a", Version: "1"})
	first.Unlogged().With(nil, []string{"a"})
	second := first.With([]*Resource{{Name: "b"}}, nil)
	names, exact := second.ChangedSince(first)
	require.True(t, exact)
	require.Equal(t, []string{"b"}, names)
}

func TestALogForgetsOldChanges(t *testing.T) {
	t.Parallel()
	first := NewSet(&Resource{Name: "a", Version: "first"})
	s := first
	for i := range maxLoggedNames + 1 {
		s = s.With([]*Resource{{Name: "a", Version: fmt.Sprint(i)}}, nil)
	}
	_, exact := s.ChangedSince(first)
	require.False(t, exact)
	next := s.With(nil, []string{"a"})
	names, exact := next.ChangedSince(s)
	require.True(t, exact)
	require.Equal(t, []string{"a"}, names)
	require.LessOrEqual(t, next.log.names, maxLoggedNames)
}

func TestChangedListsWhatDiffersFromAnySet(t *testing.T) {
	t.Parallel()
	first := NewSet(&Resource{Name: "a", Version: "1"}, &Resource{Name: "b", Version: "1"})
	second := first.With([]*Resource{{Name: "c", Version: "1"}, {Name: "a", Version: "2"}}, []string{"b"})
	require.Equal(t, []string{"a", "b", "c"}, second.Changed(first))
	require.Empty(t, second.Changed(second))
	require.Equal(t, []string{"c"}, second.With(nil, []string{"c"}).Changed(second))
	require.Equal(t, []string{"a", "c", "x"}, second.Changed(NewSet(&Resource{Name: "x"})), "of strangers it names all")
	require.Equal(t, []string{"a", "b"}, (*Set)(nil).Changed(first))
	require.Empty(t, (*Set)(nil).Changed(nil))
}
