package ads_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// overtaking is the patience with clients whose answers are overtaken.
const overtaking = time.Millisecond

func TestAChangeThatIsTakenBackIsSentIfNobodyAnsweredForIt(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, connect func(*server) *client) {
		s := serve(t, makeBeforeBreak(overtaking))
		s.publish("r1", sets{clusters: set("a=1")})
		c := connect(s)
		c.ask(clusters)
		c.ack(c.expect(clusters, "r1", "a=1"))
		c.quiet()

		s.publish("r2", sets{clusters: set("a=2")})
		c.expect(clusters, "r2", "a=2") // and takes it, but does not say so
		s.publish("r3", sets{clusters: set("a=1")})
		c.ack(c.expect(clusters, "r3", "a=1"))
		c.quiet()
	})
}

// A client refuses a resource. Before that it was sent another version, for which it did not
// answer, and which it may have applied.
func TestAClientThatMayHaveTakenAnOvertakenVersionIsSentWhatItAccepted(t *testing.T) {
	t.Parallel()
	for _, typeURL := range []string{clusters, endpoints} {
		t.Run(typeURL, func(t *testing.T) {
			t.Parallel()
			eachForm(t, func(t *testing.T, connect func(*server) *client) {
				s := serve(t, makeBeforeBreak(overtaking))
				s.publish("r1", sets{typeURL: set("a=1")})
				c := connect(s)
				var names []string
				if named(typeURL) {
					names = []string{"a"}
				}
				c.ask(typeURL, names...)
				c.ack(c.expect(typeURL, "r1", "a=1"), names...)
				c.quiet() // or the answer would be overtaken on a busy machine
				s.publish("r2", sets{typeURL: set("a=bad")})
				c.nack(c.expect(typeURL, "r2", "a=bad"), "no", names...)
				c.quiet()

				s.publish("r3", sets{typeURL: set("a=2")})
				c.expect(typeURL, "r3", "a=2")
				s.publish("r4", sets{typeURL: set("a=worse")})
				c.nack(c.expect(typeURL, "r4", "a=worse"), "no", names...)
				c.ack(c.expect(typeURL, "r4", "a=1"), names...)
				c.quiet()
				refused := stateOf(t, s)[typeURL].Refused
				require.Len(t, refused, 1)
				require.Equal(t, "worse", refused[0].Version)

				s.publish("r5", sets{typeURL: set("a=1")})
				c.quiet() // it has that
				require.Empty(t, stateOf(t, s)[typeURL].Refused)
			})
		})
	}
}

// The client may have applied the version 2 of a when it refused the response with b.
func TestTheNextRefusalDoesNotForgetWhatTheClientIsOwed(t *testing.T) {
	t.Parallel()
	s := serve(t, quarantining)
	s.publish("r1", sets{clusters: set("a=1", "b=1")})
	c := s.delta()
	c.ask(clusters)
	c.ack(c.expect(clusters, "r1", "a=1", "b=1"))
	s.publish("r2", sets{clusters: set("a=2", "b=bad")})
	both := c.expect(clusters, "r2", "a=2", "b=bad")
	s.publish("r3", sets{clusters: set("a=bad", "b=bad")})
	c.nack(both, "no")
	alone := c.expect(clusters, "r3", "a=bad")
	s.publish("r4", sets{clusters: set("a=worse", "b=bad")})
	c.nack(alone, "no")
	c.nack(c.expect(clusters, "r4", "a=worse"), "no")
	c.nack(c.expect(clusters, "r4", "b=bad"), "no")
	c.ack(c.expect(clusters, "r4", "a=1"))
	c.quiet()
}

func TestARemovalIsRepeatedUntilItIsAccepted(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, connect func(*server) *client) {
		s := serve(t, quarantining)
		line := set("a=1", "b=1")
		s.publish("r1", sets{clusters: line})
		c := connect(s)
		c.ask(clusters)
		c.ack(c.expect(clusters, "r1", "a=1", "b=1"))
		line = set("b=bad")
		s.publish("r2", sets{clusters: line})
		first := c.expect(clusters, "r2", "b=bad")
		s.publish("r3", sets{clusters: set("b=bad", "c=bad")})
		c.nack(first, "no b")
		c.nack(c.others("r3", []string{"c=bad"}, "b=1"), "no c")
		last := c.others("r3", nil, "b=1")
		if _, incremental := c.form.(deltaForm); incremental {
			last.without(t, "a")
		}
		c.ack(last)
		c.quiet()
	})
}
