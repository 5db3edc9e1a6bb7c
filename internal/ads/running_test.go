package ads_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/ads"
	"github.com/pgmesh/pgmesh/internal/ads/served"
	"github.com/pgmesh/pgmesh/internal/testbench/poll"
)

func tellingWhatRuns(patience time.Duration) func(*ads.Config) {
	return func(cfg *ads.Config) {
		makeBeforeBreak(patience)(cfg)
		cfg.Essential = []string{listeners}
	}
}

// running returns the revision that the only client runs, "" for none.
func (s *server) running() string {
	s.t.Helper()
	streams := s.ads.Streams()
	require.Len(s.t, streams, 1)
	if at := streams[0].Running().Snapshot; at != nil {
		return at.Revision
	}
	return ""
}

func (s *server) awaitRunning(revision string) {
	s.t.Helper()
	poll.Within(s.t, limit, func(context.Context) error {
		if runs := s.running(); runs != revision {
			return fmt.Errorf("the client is said to run %q, want %q", runs, revision)
		}
		return nil
	})
}

func TestAClientRunsWhatItHasAcceptedAsAWhole(t *testing.T) {
	t.Parallel()
	s := serve(t, tellingWhatRuns(limit))
	c := s.delta()
	s.publish("r1", routedTo("old"))
	c.ask(clusters)
	c.ack(c.expect(clusters, "r1", "old=1"))
	c.ask(endpoints, "old")
	c.ack(c.expect(endpoints, "r1", "old=1"))
	s.heard.await(t, "acked "+endpoints+" r1")
	require.Empty(t, s.running(), "it has no listeners yet")
	c.ask(listeners)
	lds := c.expect(listeners, "r1", "l-old=1")
	c.ask(routes, "r") // as Envoy does, before it answers about the listeners
	c.ack(lds)
	rds := c.expect(routes, "r1", "r=old")
	require.Empty(t, s.running())
	c.ack(rds)
	s.awaitRunning("r1")

	s.publish("r2", routedTo("new"))
	c.ack(c.expect(clusters, "r2", "new=1"))
	c.ask(endpoints, "new")
	c.ack(c.expect(endpoints, "r2", "new=1"))
	c.ack(c.expect(listeners, "r2", "l-new=1"))
	c.ack(c.expect(routes, "r2", "r=new"))
	c.ack(c.expect(listeners, "r2").without(t, "l-old"))
	gone := c.expect(clusters, "r2").without(t, "old")
	require.Equal(t, "r1", s.running(), "it has not said that it let go of the old cluster")
	require.Equal(t, "r2", s.ads.Streams()[0].Running().Target.Revision)
	c.ack(gone)
	c.ack(c.expect(endpoints, "r2").without(t, "old"))
	s.awaitRunning("r2")
}

func TestAClientThatRefusesRunsWhatItHadBefore(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, connect func(*server) *client) {
		s := serve(t, quarantining)
		s.publish("r1", sets{clusters: set("a=1")})
		c := connect(s)
		c.ask(clusters)
		c.ack(c.expect(clusters, "r1", "a=1"))
		s.awaitRunning("r1")
		s.publish("r2", sets{clusters: set("a=2")})
		bad := c.expect(clusters, "r2", "a=2")
		require.NotZero(t, s.ads.Streams()[0].Running().Unanswered)
		c.nack(bad, "a: no such thing")
		s.heard.await(t, "refusing "+clusters+" +1")
		require.Equal(t, "r1", s.running())
		require.Equal(t, 1, s.ads.Streams()[0].Running().Refused)
		s.publish("r3", sets{clusters: set("a=3")})
		c.ack(c.expect(clusters, "r3", "a=3"))
		s.awaitRunning("r3")
		require.Zero(t, s.ads.Streams()[0].Running().Refused)
	})
}

// A client does not answer for a cluster for so long that it is sent the removal of the one before,
// too. Then it refuses the new one: it has neither.
func TestAClientThatRefusesLateMayRunNothing(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, connect func(*server) *client) {
		s := serve(t, makeBeforeBreak(overtaking))
		s.publish("r1", sets{clusters: set("old=1", "other=1")})
		c := connect(s)
		c.ask(clusters)
		c.acceptUntilRunning(s, "r1")
		s.publish("r2", sets{clusters: set("new=1", "other=1")})
		both := c.next()
		require.Contains(t, both.resources, "new=1")
		only := c.next() // its patience is over
		require.NotContains(t, only.resources, "old=1")
		s.awaitRunning("")
		c.nack(both, "not this one")
		c.nack(only, "not this one")
		c.ack(c.next())
		require.Empty(t, c.everything())
		require.Empty(t, s.running())
		s.publish("r3", sets{clusters: set("newer=1", "other=1")})
		c.acceptUntilRunning(s, "r3")
	})
}

// What a client is told to remove in a response that it refuses is removed all the same, as soon as
// it accepts that.
func TestAClientThatRefusesWhatReplacesSomethingRunsNothing(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, connect func(*server) *client) {
		s := serve(t, quarantining)
		s.publish("r1", sets{clusters: set("old=1", "other=1")})
		c := connect(s)
		c.ask(clusters)
		c.ack(c.expect(clusters, "r1", "old=1", "other=1"))
		s.awaitRunning("r1")
		s.publish("r2", sets{clusters: set("new=1", "other=1")})
		c.nack(c.next(), "not this one")
		c.ack(c.next())
		require.Empty(t, c.everything())
		require.Empty(t, s.running())
		s.publish("r3", sets{clusters: set("other=1")})
		c.acceptUntilRunning(s, "r3")
	})
}

// acceptUntilRunning accepts all that comes until the client is said to run a revision.
func (c *client) acceptUntilRunning(s *server, revision string) {
	c.t.Helper()
	poll.Within(c.t, limit, func(context.Context) error {
		for _, a := range c.everything() {
			c.ack(a)
		}
		if runs := s.running(); runs != revision {
			return fmt.Errorf("the client is said to run %q, want %q", runs, revision)
		}
		return nil
	})
}

// A plan goes on without a client that does not ask for the endpoints of its cluster. But the
// client does not run the change before it has them.
func TestAClientThatIsNotWaitedForRunsNothingYet(t *testing.T) {
	t.Parallel()
	s := serve(t, tellingWhatRuns(time.Nanosecond))
	c := s.delta()
	s.publish("r1", sets{listeners: set("l=1"), routes: set("r=old"), clusters: served.NewSet(), endpoints: set("new=1")})
	c.ask(clusters)
	c.ack(c.expect(clusters, "r1"))
	c.ask(listeners)
	c.ack(c.expect(listeners, "r1", "l=1"))
	s.awaitRunning("r1")
	s.publish("r2", sets{
		listeners: set("l=2"), routes: set("r=old"), endpoints: set("new=1"),
		clusters: served.NewSet(res("new", "1", served.Ref{TypeURL: endpoints, Name: "new"})),
	})
	c.ack(c.expect(clusters, "r2", "new=1"))
	c.ack(c.expect(listeners, "r2", "l=2"))
	s.heard.await(t, "acked "+listeners+" r2")
	require.Equal(t, "r1", s.running())
	c.ask(endpoints, "new")
	c.ack(c.expect(endpoints, "r2", "new=1"))
	s.awaitRunning("r2")
}
