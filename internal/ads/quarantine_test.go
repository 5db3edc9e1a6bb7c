package ads_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/ads"
	"github.com/pgmesh/pgmesh/internal/ads/quarantine"
	"github.com/pgmesh/pgmesh/internal/ads/served"
)

func quarantining(cfg *ads.Config) { cfg.Quarantine = true }

// A client names what it refuses. It is sent everything else at once, and then that alone.
func TestARefusalCostsOneResource(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, connect func(*server) *client) {
		s := serve(t, quarantining)
		line := set("a=1", "b=1", "c=1")
		s.publish("r1", sets{clusters: line})
		c := connect(s)
		c.ask(clusters)
		c.ack(c.expect(clusters, "r1", "a=1", "b=1", "c=1"))

		line = line.With([]*served.Resource{res("a", "2"), res("b", "2"), res("c", "2")}, nil)
		s.publish("r2", sets{clusters: line})
		c.nack(c.expect(clusters, "r2", "a=2", "b=2", "c=2"), "Error adding/updating cluster(s) b: no such thing")
		c.ack(c.others("r2", []string{"a=2", "c=2"}, "b=1"))
		c.nack(c.others("r2", []string{"b=2"}, "a=2", "c=2"), "b: no such thing")
		c.quiet()
		refused := stateOf(t, s)[clusters].Refused
		require.Len(t, refused, 1)
		require.Equal(t, quarantine.Refused{Name: "b", Version: "2", Reason: "b: no such thing", Since: refused[0].Since}, refused[0])
		require.Contains(t, s.heard.all(), "refusing "+clusters+" +1")

		// While it is the same, it is not sent again with other changes.
		line = line.With([]*served.Resource{res("a", "3")}, nil)
		s.publish("r3", sets{clusters: line})
		c.ack(c.others("r3", []string{"a=3"}, "b=1", "c=2"))
		c.quiet()

		s.publish("r4", sets{clusters: line.With([]*served.Resource{res("b", "3")}, nil)})
		c.ack(c.others("r4", []string{"b=3"}, "a=3", "c=2"))
		c.quiet()
		require.Empty(t, stateOf(t, s)[clusters].Refused)
		require.Contains(t, s.heard.all(), "refusing "+clusters+" -1")
	})
}

// others expects an answer with the changed clusters, and in the state of the world also with the
// others.
func (c *client) others(revision string, changed []string, unchanged ...string) *answer {
	c.t.Helper()
	if _, incremental := c.form.(deltaForm); !incremental {
		changed = append(changed, unchanged...)
	}
	return c.expect(clusters, revision, changed...)
}

// A client that names nothing is sent smaller and smaller responses.
func TestARefusalWithoutANameCostsOneResource(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, connect func(*server) *client) {
		s := serve(t, quarantining)
		var all []*served.Resource
		for i := range 64 {
			all = append(all, res(fmt.Sprintf("n%02d", i), "1"))
		}
		s.publish("r1", sets{clusters: served.NewSet(all...)})
		c := connect(s)
		c.ask(clusters)
		has := map[string]bool{}
		for range 1 + 2*6 {
			a := c.next()
			if slices.Contains(a.resources, "n41=1") {
				c.nack(a, "something is wrong")
				continue
			}
			for _, r := range a.resources {
				has[r] = true
			}
			c.ack(a)
		}
		c.quiet()
		require.Len(t, has, 63)
		require.Zero(t, stateOf(t, s)[clusters].InDoubt)
		require.Equal(t, "n41", stateOf(t, s)[clusters].Refused[0].Name)
	})
}

func TestAClientMayRefuseEverything(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, connect func(*server) *client) {
		s := serve(t, quarantining)
		s.publish("r1", sets{clusters: set("a=1", "b=1", "c=1", "d=1", "e=1", "f=1", "g=1", "h=1")})
		c := connect(s)
		c.ask(clusters)
		for range 15 { // the whole, two halves, four quarters, and each
			c.nack(c.next(), "no")
		}
		c.quiet()
		require.Len(t, stateOf(t, s)[clusters].Refused, 8)

		s.publish("r2", sets{clusters: set("a=1", "b=1", "c=1", "d=2", "e=1", "f=1", "g=1", "h=1")})
		c.ack(c.expect(clusters, "r2", "d=2"))
		c.quiet()
		c.cancel()
		s.heard.await(t, "closed "+nodeID)
		require.Contains(t, s.heard.all(), "refusing "+clusters+" -7", "who has left refuses nothing")
	})
}

func TestOfWhatIsInDoubtTheNewestVersionIsTried(t *testing.T) {
	t.Parallel()
	s := serve(t, quarantining)
	line := set("a=1", "b=1", "c=1", "d=1")
	s.publish("r1", sets{clusters: line})
	c := s.delta()
	c.ask(clusters)
	first := c.expect(clusters, "r1", "a=1", "b=1", "c=1", "d=1")
	line = line.With([]*served.Resource{res("b", "2")}, []string{"c"})
	s.publish("r2", sets{clusters: line})
	c.nack(first, "no")
	half := c.expect(clusters, "r2", "a=1", "b=2")
	c.ack(half)
	c.ack(c.expect(clusters, "r2", "d=1"))
	c.ack(c.expect(clusters, "r2").without(t, "c")) // which it may have taken
	c.quiet()
}

func TestOnlyARefusedPartIsInDoubt(t *testing.T) {
	t.Parallel()
	s := serve(t, func(cfg *ads.Config) { quarantining(cfg); cfg.MostBytes = 1 })
	s.publish("r1", sets{clusters: set("a=1", "b=1", "c=1")})
	c := s.delta()
	c.ask(clusters)
	a, b, last := c.next(), c.next(), c.next()
	c.ack(a)
	c.nack(b, "no b")
	c.ack(last)
	c.quiet()
	refused := stateOf(t, s)[clusters].Refused
	require.Len(t, refused, 1)
	require.Equal(t, "b", refused[0].Name)
}

// The server does not know which clusters a listener uses. So it removes none that the accepted
// version may use, but those that came after the refusal.
func TestARefusedListenerKeepsTheClustersThatItMayUse(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, connect func(*server) *client) {
		s := serve(t, makeBeforeBreak(limit))
		mesh := func(l string, cs ...string) sets {
			return sets{clusters: set(cs...), listeners: set(l)}
		}
		s.publish("r1", mesh("l=1", "old=1"))
		c := connect(s)
		c.ask(clusters)
		c.ack(c.expect(clusters, "r1", "old=1"))
		c.ask(listeners)
		c.ack(c.expect(listeners, "r1", "l=1"))
		s.publish("r2", mesh("l=bad", "new=1"))
		c.ack(c.others("r2", []string{"new=1"}, "old=1"))
		c.nack(c.expect(listeners, "r2", "l=bad"), "no")
		c.quiet()

		s.publish("r3", mesh("l=bad", "new=1", "later=1"))
		c.ack(c.others("r3", []string{"later=1"}, "new=1", "old=1"))
		s.publish("r4", mesh("l=bad", "new=1"))
		a := c.next()
		if _, incremental := c.form.(deltaForm); incremental {
			require.Equal(t, []string{"later"}, a.removed)
		} else {
			require.ElementsMatch(t, []string{"new=1", "old=1"}, a.resources)
		}
		c.ack(a)
		c.quiet()

		s.publish("r5", mesh("l=2", "new=1"))
		c.ack(c.expect(listeners, "r5", "l=2"))
		a = c.next()
		require.Equal(t, clusters, a.typeURL)
		require.NotContains(t, a.resources, "old=1")
		c.ack(a)
		c.quiet()
	})
}

func TestARefusedClusterDoesNotKeepListeners(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, connect func(*server) *client) {
		s := serve(t, makeBeforeBreak(limit))
		s.publish("r1", sets{clusters: set("c=1"), listeners: set("l=1", "m=1")})
		c := connect(s)
		c.ask(clusters)
		c.ack(c.expect(clusters, "r1", "c=1"))
		c.ask(listeners)
		c.ack(c.expect(listeners, "r1", "l=1", "m=1"))
		s.publish("r2", sets{clusters: set("c=bad"), listeners: set("l=1")})
		c.nack(c.expect(clusters, "r2", "c=bad"), "no")
		a := c.next()
		require.Equal(t, listeners, a.typeURL)
		require.NotContains(t, a.resources, "m=1")
	})
}

func TestAClientThatAsksForWhatItRefusesGetsWhatItAcceptedLast(t *testing.T) {
	t.Parallel()
	s := serve(t, quarantining)
	line := set("a=1", "b=bad")
	s.publish("r1", sets{endpoints: line})
	c := s.delta()
	c.ask(endpoints, "a")
	c.ack(c.expect(endpoints, "r1", "a=1"))
	line = line.With([]*served.Resource{res("a", "bad")}, nil)
	s.publish("r2", sets{endpoints: line})
	c.nack(c.expect(endpoints, "r2", "a=bad"), "no")
	c.ask(endpoints, "a")
	c.ack(c.expect(endpoints, "r2", "a=1"))
	require.Len(t, stateOf(t, s)[endpoints].Refused, 1, "it still does not have what it refused")

	c.ask(endpoints, "b")
	c.nack(c.expect(endpoints, "r2", "b=bad"), "no")
	c.ask(endpoints, "b") // of which it took nothing ever
	c.nack(c.expect(endpoints, "r2", "b=bad"), "no")
	c.quiet()

	c.send(ask{typeURL: endpoints, unsubscribe: []string{"a", "b"}})
	c.quiet()
	require.Empty(t, stateOf(t, s)[endpoints].Refused)
}

// A response had two resources, and the client dropped one before it refused. So the other was not
// refused alone.
func TestTheRestOfARefusedResponseIsTriedAgain(t *testing.T) {
	t.Parallel()
	s := serve(t, quarantining)
	s.publish("r1", sets{endpoints: set("a=1", "b=1")})
	c := s.delta()
	c.ask(endpoints, "a", "b")
	both := c.expect(endpoints, "r1", "a=1", "b=1")
	c.send(ask{typeURL: endpoints, unsubscribe: []string{"b"}})
	c.nack(both, "one of them is wrong")
	c.ack(c.expect(endpoints, "r1", "a=1"))
	c.quiet()
	require.Empty(t, stateOf(t, s)[endpoints].Refused)
}
