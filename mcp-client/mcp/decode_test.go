package mcp_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/pgmesh/pgmesh/mcp-client/mcp"
)

// A large response is decoded concurrently, with the same result: in order, and the undecodable
// resources refused.
func TestLargeResponse(t *testing.T) {
	t.Parallel()
	const many = 3000 // more than are looked at at once
	s := newForeign(t)
	f := follow(t, s.addr, only(serviceEntry))
	g := s.accept(serviceEntry)
	var all []*anypb.Any
	var want []string
	for i := range many {
		all = append(all, envelope(t, entry(fmt.Sprint("n", i), "1"), ""))
		want = append(want, fmt.Sprintf("ServiceEntry default/n%d=1", i))
	}
	g.say(serviceEntry.TypeURL(), "1", all...)
	first := f.expect(0, want...)
	for i, c := range first.Changes {
		require.Equal(t, fmt.Sprint("n", i), c.Key.Name, "changes are in the order of the response")
	}
	g.acked("1")

	all[1500], all[2999] = broken(t, "default/n1500"), envelope(t, entry("n2999", "2"), "")
	g.say(serviceEntry.TypeURL(), "2", all...)
	f.expect(0, "ServiceEntry default/n2999=2")
	require.Contains(t, g.refused().GetErrorDetail().GetMessage(), "ServiceEntry default/n1500")
}

// If a response has a resource twice, the last one counts, although both are compared with the
// state before.
func TestResourceTwiceInResponse(t *testing.T) {
	t.Parallel()
	s := newForeign(t)
	f := follow(t, s.addr, only(serviceEntry), func(cfg *mcp.Config) { cfg.Protocol = mcp.XDS })
	g := s.accept(serviceEntry)
	one, two := envelope(t, entry("a", "1"), ""), envelope(t, entry("a", "2"), "")
	g.say(serviceEntry.TypeURL(), "1", one)
	f.expect(0, "ServiceEntry default/a=1")
	g.acked("1")

	g.say(serviceEntry.TypeURL(), "2", two, one, envelope(t, entry("b", "1"), "")) // back to what it is already
	f.expect(0, "ServiceEntry default/b=1")
	g.acked("2")
	g.say(serviceEntry.TypeURL(), "3", one, two, envelope(t, entry("b", "1"), ""))
	f.expect(0, "ServiceEntry default/a=2")
	g.acked("3")
}
