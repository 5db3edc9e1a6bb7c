package clients_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/mcp-server/clients"
	mcpv1 "github.com/pgmesh/pgmesh/proto/pgmesh/mcp/v1"
)

func TestCompleteRevision(t *testing.T) {
	t.Parallel()
	type step func(c *clients.Client)
	sent := func(typeURL, revision string) step { return func(c *clients.Client) { c.Sent(typeURL, revision) } }
	has := func(typeURL, revision string) step { return func(c *clients.Client) { c.Accepted(typeURL, revision) } }
	refused := func(typeURL, revision string) step {
		return func(c *clients.Client) { c.Refused(typeURL, revision, "no") }
	}
	for name, test := range map[string]struct {
		steps []step
		want  int64
	}{
		"nothing sent":                  {nil, 0},
		"not answered yet":              {[]step{sent("a", "3")}, 0},
		"all accepted":                  {[]step{sent("a", "3"), has("a", "3"), sent("b", "5"), has("b", "5")}, 5},
		"one on its way":                {[]step{sent("a", "3"), has("a", "3"), sent("a", "6"), sent("b", "5"), has("b", "5")}, 3},
		"one refused":                   {[]step{sent("a", "3"), has("a", "3"), sent("a", "6"), refused("a", "6")}, 3},
		"the mark says so":              {[]step{sent("a", "6"), sent(mcpv1.BatchTypeURL, "5"), has(mcpv1.BatchTypeURL, "5")}, 5},
		"revisions that are no numbers": {[]step{sent("a", "2026-05-01"), has("a", "2026-05-01")}, 0},
	} {
		roll := clients.NewRoll()
		c := roll.Join("n", "delta")
		for _, s := range test.steps {
			s(c)
		}
		require.Equal(t, test.want, roll.List()[0].GetRevision(), name)
	}
}

func TestListIsSortedAndLeavesOutWhoLeft(t *testing.T) {
	t.Parallel()
	roll := clients.NewRoll()
	b, a := roll.Join("b", "sotw"), roll.Join("a", "legacy")
	b.Refused("t", "1", strings.Repeat("x", 10_000))
	list := roll.List()
	require.Equal(t, []string{"a", "b"}, []string{list[0].GetNode(), list[1].GetNode()})
	require.Less(t, len(list[1].GetSubscriptions()[0].GetReason()), 600, "a client may say what it likes")
	b.Refused("t", "1", "x"+strings.Repeat("ä", 10_000))
	require.True(t, utf8.ValidString(roll.List()[1].GetSubscriptions()[0].GetReason()), "or nobody could be sent the list")
	b.Accepted("t", "2")
	require.Empty(t, roll.List()[1].GetSubscriptions()[0].GetReason())
	a.Leave()
	b.Leave()
	require.Empty(t, roll.List())
}
