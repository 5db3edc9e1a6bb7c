package served_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/ads/served"
)

func contents(s *served.Set) string {
	var b strings.Builder
	for r := range s.All() {
		fmt.Fprintf(&b, "%s=%s ", r.Name, r.Version)
	}
	return b.String()
}

func TestFilteredSetsFollowTheirSource(t *testing.T) {
	t.Parallel()
	rules := rand.New(rand.NewPCG(1, 2))
	even := func(r *served.Resource) bool { return r.Version[len(r.Version)-1]%2 == 0 }
	source := served.NewSet()
	kept := served.Filter(nil, nil, source, even)
	for range 2000 {
		older := source
		if rules.IntN(50) == 0 { // a new line, which must be compared completely
			source = served.NewSet()
			for r := range older.All() {
				source = source.With([]*served.Resource{r}, nil)
			}
		}
		for range rules.IntN(4) { // none, one, or several changes at once
			name := fmt.Sprintf("n%d", rules.IntN(30))
			if rules.IntN(3) == 0 {
				source = source.With(nil, []string{name})
			} else {
				source = source.With([]*served.Resource{{Name: name, Version: fmt.Sprint(rules.IntN(100))}}, nil)
			}
		}
		kept = served.Filter(kept, older, source, even)
		require.Equal(t, contents(served.Filter(nil, nil, source, even)), contents(kept))
	}
}

func TestAFilterLooksOnlyAtWhatChanged(t *testing.T) {
	t.Parallel()
	looked := 0
	all := func(*served.Resource) bool {
		looked++
		return true
	}
	var many []*served.Resource
	for i := range 1000 {
		many = append(many, &served.Resource{Name: fmt.Sprint(i), Version: "1"})
	}
	source := served.NewSet(many...)
	kept := served.Filter(nil, nil, source, all)
	looked = 0
	next := source.With([]*served.Resource{{Name: "7", Version: "2"}}, []string{"8"})
	following := served.Filter(kept, source, next, all)
	require.Equal(t, 1, looked)
	require.Equal(t, 999, following.Len())
	require.Same(t, following, served.Filter(following, next, next, all), "nothing has changed")
	require.Zero(t, served.Filter(nil, nil, nil, all).Len())
	require.Zero(t, served.Filter(following, next, nil, all).Len())
}
