package listener

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestChainsForTheSameConnectionsConflict(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		a, b Chain
		want bool
	}{
		{"both for all", Chain{}, Chain{}, true},
		{"any server name is none", Chain{Names: []string{"*"}}, Chain{}, true},
		{"any address is none", Chain{Ranges: []string{"0.0.0.0"}}, Chain{}, true},
		{"same names in another order", Chain{Names: []string{"a", "b"}}, Chain{Names: []string{"b", "a"}}, true},
		{"same range written with other bits", Chain{Ranges: []string{"10.1.2.3/16"}}, Chain{Ranges: []string{"10.1.0.0/16"}}, true},
		{"an address is its own range", Chain{Ranges: []string{"10.1.2.3"}}, Chain{Ranges: []string{"10.1.2.3/32"}}, true},
		{"one name of several", Chain{Names: []string{"a", "b"}}, Chain{Names: []string{"b", "c"}}, true},
		{"one range of several", Chain{Ranges: []string{"10.1.0.0/16", "10.2.0.0/16"}}, Chain{Ranges: []string{"10.2.0.0/16"}}, true},
		{"a range within another", Chain{Ranges: []string{"10.1.0.0/16"}}, Chain{Ranges: []string{"10.1.2.0/24"}}, false},
		{"the same names at other ranges", Chain{Names: []string{"a"}, Ranges: []string{"10.1.0.0/16"}}, Chain{Names: []string{"a"}}, false},
		{"other names", Chain{Names: []string{"a"}}, Chain{Names: []string{"b"}}, false},
		{"other ranges", Chain{Ranges: []string{"10.1.0.0/16"}}, Chain{Ranges: []string{"10.2.0.0/16"}}, false},
		{"other protocols", Chain{Protocols: PlaintextHTTP}, Chain{}, false},
		{"other transport", Chain{Transport: RawBuffer}, Chain{}, false},
	} {
		require.Equal(t, c.want, c.a.conflicts(c.b), c.name)
		require.Equal(t, c.want, c.b.conflicts(c.a), c.name)
	}
}

func TestAChainKeepsWhatAnotherIsNotFor(t *testing.T) {
	t.Parallel()
	there := Chain{Names: []string{"a", "b"}, Ranges: []string{"10.1.0.0/16", "10.2.0.0/16"}}
	for _, c := range []struct {
		name string
		in   Chain
		want []Chain
	}{
		{"nothing of the same", Chain{Names: []string{"a"}, Ranges: there.Ranges}, nil},
		{"all, where they share nothing", Chain{Names: []string{"c"}}, []Chain{{Names: []string{"c"}}}},
		{
			"its other names",
			Chain{Names: []string{"b", "c"}, Ranges: []string{"10.2.0.0/16"}},
			[]Chain{{Names: []string{"c"}, Ranges: []string{"10.2.0.0/16"}}},
		},
		{
			"its names at other ranges, too",
			Chain{Names: []string{"b", "c"}, Ranges: []string{"10.2.0.0/16", "10.3.0.0/16"}},
			[]Chain{
				{Names: []string{"c"}, Ranges: []string{"10.2.0.0/16", "10.3.0.0/16"}},
				{Names: []string{"b"}, Ranges: []string{"10.3.0.0/16"}},
			},
		},
	} {
		require.Equal(t, c.want, c.in.Without(there), c.name)
	}
	require.Equal(t, []Chain{{Ranges: []string{"10.3.0.0/16"}}},
		Chain{Ranges: []string{"10.1.0.0/16", "10.3.0.0/16"}}.Without(Chain{Ranges: []string{"10.1.0.0/16"}}), "any name stays any name")
}
