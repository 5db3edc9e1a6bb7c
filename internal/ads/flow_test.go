package ads_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/ads/served"
)

func TestAfterAnAnswerOnlyTheNewestStateIsSent(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, connect func(*server) *client) {
		s := serve(t, nil)
		line := set("a=0", "b=0")
		s.publish("r0", sets{clusters: line})
		c := connect(s)
		c.ask(clusters)
		first := c.expect(clusters, "r0", "a=0", "b=0")
		for i := 1; i <= 100; i++ {
			version := fmt.Sprint(i)
			line = line.With([]*served.Resource{res("a", version), res("b", version)}, nil)
			s.publish("r"+version, sets{clusters: line})
		}
		c.quiet()
		c.ack(first)
		c.ack(c.expect(clusters, "r100", "a=100", "b=100"))
		c.quiet()
	})
}

func TestTypesDoNotWaitForOneAnother(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, connect func(*server) *client) {
		s := serve(t, nil)
		s.publish("r1", sets{clusters: set("a=1"), listeners: set("l=1")})
		c := connect(s)
		c.ask(clusters)
		c.expect(clusters, "r1", "a=1")
		c.ask(listeners)
		c.ack(c.expect(listeners, "r1", "l=1"))
		s.publish("r2", sets{clusters: set("a=2"), listeners: set("l=2")})
		c.expect(listeners, "r2", "l=2")
		c.quiet()
	})
}

func TestUnchangedContentIsNotSentAgain(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, connect func(*server) *client) {
		s := serve(t, nil)
		line := set("a=1")
		s.publish("r1", sets{clusters: line, listeners: set("l=1")})
		c := connect(s)
		c.ask(clusters)
		c.ask(listeners)
		c.ack(c.expect(clusters, "r1", "a=1"))
		c.ack(c.expect(listeners, "r1", "l=1"))
		s.publish("r2", sets{clusters: line, listeners: set("l=2")})
		c.ack(c.expect(listeners, "r2", "l=2"))
		// A new set with the same content, and one that changed and changed back.
		s.publish("r3", sets{clusters: set("a=1"), listeners: set("l=2")})
		c.quiet()
		line = line.With([]*served.Resource{res("a", "2")}, nil).With([]*served.Resource{res("a", "1")}, nil)
		s.publish("r4", sets{clusters: line, listeners: set("l=2")})
		c.quiet()
	})
}

func TestRefusedContentIsNotSentAgainUntilItChanges(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, connect func(*server) *client) {
		s := serve(t, nil)
		line := set("bad=1", "good=1")
		s.publish("r1", sets{clusters: line})
		c := connect(s)
		c.ask(clusters)
		c.nack(c.expect(clusters, "r1", "bad=1", "good=1"), "bad is bad")
		s.heard.await(t, "nacked "+clusters+" r1: bad is bad")
		c.quiet()
		s.publish("r2", sets{clusters: line})
		c.quiet()
		s.publish("r3", sets{clusters: line.With([]*served.Resource{res("bad", "2")}, nil)})
		third := c.next()
		require.Contains(t, third.resources, "bad=2")
		c.ack(third)
		s.heard.await(t, "acked "+clusters+" r3")
	})
}

func TestTheObserverHearsWhatIsSent(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.publish("r1", sets{clusters: set("a=1", "b=1")})
	c := s.delta()
	c.send(ask{typeURL: clusters, held: map[string]string{"a": "1", "gone": "7"}})
	c.ack(c.expect(clusters, "r1", "b=1").without(t, "gone"))
	s.heard.await(t, "ran r1")
	require.Equal(t, []string{
		"opened " + nodeID, "sent " + clusters + " r1 +1 -1", "acked " + clusters + " r1", "ran r1",
	}, s.heard.all())
}
