package translate

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestChainsForTheSameConnectionsConflict(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		a, b chain
		want bool
	}{
		{"both for all", chain{}, chain{}, true},
		{"any server name is none", chain{names: []string{"*"}}, chain{}, true},
		{"any address is none", chain{ranges: []string{"0.0.0.0"}}, chain{}, true},
		{"same names in another order", chain{names: []string{"a", "b"}}, chain{names: []string{"b", "a"}}, true},
		{"same range written with other bits", chain{ranges: []string{"10.1.2.3/16"}}, chain{ranges: []string{"10.1.0.0/16"}}, true},
		{"an address is its own range", chain{ranges: []string{"10.1.2.3"}}, chain{ranges: []string{"10.1.2.3/32"}}, true},
		{"one name of several", chain{names: []string{"a", "b"}}, chain{names: []string{"b", "c"}}, true},
		{"one range of several", chain{ranges: []string{"10.1.0.0/16", "10.2.0.0/16"}}, chain{ranges: []string{"10.2.0.0/16"}}, true},
		{"a range within another", chain{ranges: []string{"10.1.0.0/16"}}, chain{ranges: []string{"10.1.2.0/24"}}, false},
		{"the same names at other ranges", chain{names: []string{"a"}, ranges: []string{"10.1.0.0/16"}}, chain{names: []string{"a"}}, false},
		{"other names", chain{names: []string{"a"}}, chain{names: []string{"b"}}, false},
		{"other ranges", chain{ranges: []string{"10.1.0.0/16"}}, chain{ranges: []string{"10.2.0.0/16"}}, false},
		{"other protocols", chain{protocols: plaintextHTTP}, chain{}, false},
		{"other transport", chain{transport: rawBuffer}, chain{}, false},
	} {
		require.Equal(t, c.want, c.a.conflicts(c.b), c.name)
		require.Equal(t, c.want, c.b.conflicts(c.a), c.name)
	}
}

func TestAChainIsLeftWhatAnotherIsNotFor(t *testing.T) {
	t.Parallel()
	there := chain{names: []string{"a", "b"}, ranges: []string{"10.1.0.0/16", "10.2.0.0/16"}}
	for _, c := range []struct {
		name string
		in   chain
		want []chain
	}{
		{"nothing of the same", chain{names: []string{"a"}, ranges: there.ranges}, nil},
		{"all, where they share nothing", chain{names: []string{"c"}}, []chain{{names: []string{"c"}}}},
		{
			"its other names",
			chain{names: []string{"b", "c"}, ranges: []string{"10.2.0.0/16"}},
			[]chain{{names: []string{"c"}, ranges: []string{"10.2.0.0/16"}}},
		},
		{
			"its names at other ranges, too",
			chain{names: []string{"b", "c"}, ranges: []string{"10.2.0.0/16", "10.3.0.0/16"}},
			[]chain{
				{names: []string{"c"}, ranges: []string{"10.2.0.0/16", "10.3.0.0/16"}},
				{names: []string{"b"}, ranges: []string{"10.3.0.0/16"}},
			},
		},
	} {
		require.Equal(t, c.want, c.in.without(there), c.name)
	}
	require.Equal(t, []chain{{ranges: []string{"10.3.0.0/16"}}},
		chain{ranges: []string{"10.1.0.0/16", "10.3.0.0/16"}}.without(chain{ranges: []string{"10.1.0.0/16"}}), "any name stays any name")
}
