package ads_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/ads"
	"github.com/pgmesh/pgmesh/internal/ads/served"
)

// What a client has refused, and may go on with in places, is taken back: it is sent what it
// accepted before, or told to remove it. Then it is sent again what it refused meanwhile.
func TestWhatMayStickIsTakenBack(t *testing.T) {
	t.Parallel()
	s := serve(t, func(cfg *ads.Config) { quarantining(cfg); cfg.Sticks = map[string]string{endpoints: listeners} })
	sticky, other := set("a=1"), set("l=1", "m=1")
	s.publish("r1", sets{endpoints: sticky, listeners: other})
	c := s.delta()
	c.ask(listeners)
	c.ack(c.expect(listeners, "r1", "l=1", "m=1"))
	c.ask(endpoints, "a", "b")
	c.ack(c.expect(endpoints, "r1", "a=1").without(t, "b"))

	sticky, other = sticky.With([]*served.Resource{res("a", "bad")}, nil), other.With([]*served.Resource{res("l", "2")}, nil)
	s.publish("r2", sets{endpoints: sticky, listeners: other})
	bad, refused := c.next(), c.next()
	if bad.typeURL == listeners {
		bad, refused = refused, bad
	}
	require.Equal(t, []string{"a=bad"}, bad.resources)
	require.Equal(t, []string{"l=2"}, refused.resources)
	c.nack(refused, "for what a is")
	c.nack(bad, "no")
	c.ack(c.expect(endpoints, "r2", "a=1"))
	c.ack(c.expect(listeners, "r2", "l=2"))
	c.quiet()
	require.Len(t, stateOf(t, s)[endpoints].Refused, 1)
	require.Empty(t, stateOf(t, s)[listeners].Refused)

	sticky = sticky.With([]*served.Resource{res("b", "bad")}, nil)
	s.publish("r3", sets{endpoints: sticky, listeners: other})
	c.nack(c.expect(endpoints, "r3", "b=bad"), "no")
	c.ack(c.expect(endpoints, "r3").without(t, "b"))
	c.quiet()
	require.Len(t, stateOf(t, s)[endpoints].Refused, 2)

	s.publish("r4", sets{endpoints: sticky.With([]*served.Resource{res("a", "2"), res("b", "2")}, nil), listeners: other})
	c.ack(c.expect(endpoints, "r4", "a=2", "b=2"))
	c.quiet()
	require.Empty(t, stateOf(t, s)[endpoints].Refused)
}
