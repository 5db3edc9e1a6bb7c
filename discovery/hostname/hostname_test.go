package hostname_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/discovery/hostname"
)

func TestHostsOverlapAndContain(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b            string
		overlap, within bool
	}{
		{"a.com", "a.com", true, true},
		{"a.com", "b.com", false, false},
		{"a.com", "*.com", true, true},
		{"*.com", "a.com", true, false},
		{"*.a.com", "*.com", true, true},
		{"*.com", "*.a.com", true, false},
		{"*.a.com", "*.b.com", false, false},
		{"a.com", "*", true, true},
		{"*", "*", true, true},
		{"com", "*.com", false, false},
	} {
		require.Equal(t, c.overlap, hostname.Overlap(c.a, c.b), "%s and %s", c.a, c.b)
		require.Equal(t, c.within, hostname.Within(c.a, c.b), "%s in %s", c.a, c.b)
	}
}

func TestNarrowerFirst(t *testing.T) {
	t.Parallel()
	hosts := []string{"*", "*.com", "a.com", "*.example.com", "a.example.com"}
	slices.SortFunc(hosts, hostname.NarrowerFirst)
	require.Equal(t, []string{"a.example.com", "a.com", "*.example.com", "*.com", "*"}, hosts)
}
