package caller_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/caller"
)

func TestPatterns(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern, identity string
		matches           bool
	}{
		{"spiffe://mesh/discovery", "spiffe://mesh/discovery", true},
		{"spiffe://mesh/discovery", "spiffe://mesh/discovery/eu", false},
		{"spiffe://mesh/discovery", "spiffe://mesh/discover", false},
		{"spiffe://mesh/ns/eu/*", "spiffe://mesh/ns/eu/sa/discovery", true},
		{"spiffe://mesh/ns/eu/*", "spiffe://mesh/ns/eu", false},
		{"spiffe://mesh/ns/eu/*", "spiffe://mesh/ns/europe/x", false},
		{"spiffe://mesh/ns/*/sa/discovery", "spiffe://mesh/ns/eu/sa/discovery", true},
		{"spiffe://mesh/ns/*/sa/discovery", "spiffe://mesh/ns/eu/sa/discovery/x", false},
		{"spiffe://mesh/ns/*/sa/discovery", "spiffe://mesh/ns/eu/x/sa/discovery", false},
		{"spiffe://mesh/*", "spiffe://mesh/a", true},
		{"spiffe://mesh/*", "spiffe://mesh", false},
		{"spiffe://mesh/*", "spiffe://mesh.evil/a", false},
		{"spiffe://mesh", "spiffe://mesh", true},
		{"anonymous", "anonymous", true},
		{"anonymous", "spiffe://mesh/anonymous", false},
		{"*", "spiffe://mesh/a", true},
		{"*", "anonymous", true},
		{"*", "", false},
	} {
		p, err := caller.ParsePattern(c.pattern)
		require.NoError(t, err, c.pattern)
		require.Equal(t, c.matches, p.Matches(c.identity), "%s and %s", c.pattern, c.identity)
	}
}

func TestPatternsThatMatchNothingAreRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "discovery", "spiffe://", "spiffe:///x", "spiffe://*", "spiffe://*/x", "spiffe://mesh/", "spiffe://mesh//x", "spiffe://mesh/ab*",
		"spiffe://mesh/../x", "https://mesh/x", "SPIFFE://mesh/x", "token:x", "spiffe://mesh/x y", "spiffe://Mesh/x",
	} {
		_, err := caller.ParsePattern(text)
		require.ErrorContains(t, err, "is not a pattern of identities", text)
	}
}

func TestAllowFile(t *testing.T) {
	t.Parallel()
	list, err := caller.ParseAllowFile([]byte("# who may call\n\nspiffe://mesh/discovery\n  spiffe://mesh/ops/* = write:shop ; read   # operators\nspiffe://mesh/root=admin"))
	require.NoError(t, err)
	var got []string
	for _, r := range list {
		got = append(got, r.Pattern.String())
		got = append(got, caller.Texts(r.Scopes)...)
	}
	require.Equal(t, []string{"spiffe://mesh/discovery", "read", "spiffe://mesh/ops/*", "write:shop", "read", "spiffe://mesh/root", "admin"}, got)

	for content, says := range map[string]string{
		"spiffe://mesh/a\nmesh/b": `line 2: "mesh/b" is not a pattern of identities`,
		"spiffe://mesh/a=":        `line 1: spiffe://mesh/a: scope ""`,
		"spiffe://mesh/a=all":     `"all" is not what one may do`,
		"anonymous":               "may read with --anonymous-readers",
	} {
		_, err := caller.ParseAllowFile([]byte(content))
		require.ErrorContains(t, err, says, content)
	}
}
