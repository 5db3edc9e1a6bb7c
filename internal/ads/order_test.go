package ads_test

import (
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/ads"
	"github.com/pgmesh/pgmesh/internal/ads/served"
)

// batches is the plan for clients that apply a change as a whole: everything, and then its mark.
func batches(cfg *ads.Config) {
	cfg.Plan = ads.Plan{When: mark, Stages: []ads.Stage{
		{Part: ads.Whole, Overlap: true},
		{Types: []string{mark}, Part: ads.Whole},
	}}
	cfg.Patience = time.Nanosecond // which must not matter to a client that asks for the plan
}

func state(version string) sets {
	return sets{clusters: set("c=" + version), listeners: set("l=" + version), mark: set("mark=" + version)}
}

func TestABatchEndsWithItsMark(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, connect func(*server) *client) {
		s := serve(t, batches)
		s.publish("r1", state("1"))
		c := connect(s)
		c.ask(clusters)
		c.ask(listeners)
		c.ask(mark)
		c.ack(c.expect(clusters, "r1", "c=1"))
		c.ack(c.expect(listeners, "r1", "l=1"))
		first := c.expect(mark, "r1", "mark=1")

		// A newer state waits until the mark is answered, and states in between are merged.
		s.publish("r2", state("2"))
		s.publish("r3", state("3"))
		c.quiet()
		c.ack(first)
		c.expect(clusters, "r3", "c=3")
		c.ack(c.expect(listeners, "r3", "l=3"))
		second := c.expect(mark, "r3", "mark=3") // an unanswered type does not hold the mark back
		s.publish("r4", state("4"))
		c.ack(second)
		c.expect(listeners, "r4", "l=4")
		c.quiet() // but one that is not sent does
	})
}

func TestAClientMayJoinThePlanDuringAChange(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, connect func(*server) *client) {
		s := serve(t, batches)
		s.publish("r1", state("1"))
		c := connect(s)
		c.ask(clusters)
		first := c.expect(clusters, "r1", "c=1")
		s.publish("r2", state("2"))
		c.quiet()
		c.ask(listeners)
		c.ack(c.expect(listeners, "r2", "l=2"))
		c.ask(mark)
		c.quiet() // the clusters are at r1 still
		c.ack(first)
		c.expect(clusters, "r2", "c=2")
		c.expect(mark, "r2", "mark=2")
	})
}

func TestTheMarkComesLastWhateverIsAskedFirst(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, connect func(*server) *client) {
		s := serve(t, batches)
		s.publish("r1", state("1"))
		c := connect(s)
		c.ask(mark)
		c.ack(c.expect(mark, "r1", "mark=1"))
		c.ask(clusters)
		c.ack(c.expect(clusters, "r1", "c=1"))
		s.publish("r2", state("2"))
		c.expect(clusters, "r2", "c=2")
		c.expect(mark, "r2", "mark=2")
	})
}

func TestWithoutTheMarkThereIsNoPlan(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, connect func(*server) *client) {
		s := serve(t, batches)
		s.publish("r1", state("1"))
		c := connect(s)
		c.ask(clusters)
		c.expect(clusters, "r1", "c=1")
		c.ask(listeners)
		for _, v := range []string{"1", "2", "3"} {
			s.publish("r"+v, state(v))
			c.ack(c.expect(listeners, "r"+v, "l="+v))
		}
	})
}

// makeBeforeBreak is the plan for clients whose listeners and routes lead to clusters and
// endpoints.
func makeBeforeBreak(patience time.Duration) func(*ads.Config) {
	return func(cfg *ads.Config) {
		cfg.Plan = ads.Plan{Stages: []ads.Stage{
			{Types: []string{clusters, endpoints}, Part: ads.Make},
			{Types: []string{listeners}, Part: ads.Make, Overlap: true},
			{Types: []string{routes}, Part: ads.Whole},
			{Types: []string{listeners}, Part: ads.Break},
			{Types: []string{clusters, endpoints}, Part: ads.Break, Overlap: true},
		}}
		cfg.Patience, cfg.Quarantine = patience, true
	}
}

// routedTo is a mesh with one route, to one cluster with endpoints of the same name.
func routedTo(cluster string) sets {
	return sets{
		clusters:  served.NewSet(res(cluster, "1", served.Ref{TypeURL: endpoints, Name: cluster})),
		endpoints: set(cluster + "=1"),
		listeners: set("l-" + cluster + "=1"),
		routes:    set("r=" + cluster),
	}
}

// start gives a client the mesh whose route leads to the old cluster.
func start(s *server, c *client) {
	s.publish("r1", routedTo("old"))
	c.ask(clusters)
	c.ack(c.expect(clusters, "r1", "old=1"))
	c.ask(endpoints, "old")
	c.ack(c.expect(endpoints, "r1", "old=1"), "old")
	c.ask(listeners)
	c.ack(c.expect(listeners, "r1", "l-old=1"))
	c.ask(routes, "r")
	c.ack(c.expect(routes, "r1", "r=old"), "r")
	c.quiet()
}

func TestMakeBeforeBreakDelta(t *testing.T) {
	t.Parallel()
	s := serve(t, makeBeforeBreak(limit))
	c := s.delta()
	start(s, c)
	s.publish("r2", routedTo("new"))

	cds := c.expect(clusters, "r2", "new=1").without(t)
	c.quiet()
	c.ack(cds)
	c.quiet() // not before the new cluster's endpoints are asked for,
	c.ask(endpoints, "new")
	eds := c.expect(endpoints, "r2", "new=1").without(t)
	c.quiet() // and answered
	c.ack(eds)
	lds := c.expect(listeners, "r2", "l-new=1").without(t)
	rds := c.expect(routes, "r2", "r=new") // right behind the listener
	c.ack(lds)
	c.quiet() // nothing breaks before the route has changed
	c.ack(rds)
	gone := c.expect(listeners, "r2").without(t, "l-old")
	c.quiet()
	c.ack(gone)
	c.expect(clusters, "r2").without(t, "old")
	c.expect(endpoints, "r2").without(t, "old")
	c.quiet()
}

// A route need not wait for the answer about endpoints if the client applies them before it reads
// on, except while a cluster waits for more than them.
func TestARouteFollowsTheEndpointsThatItsClusterAwaits(t *testing.T) {
	t.Parallel()
	for name, warms := range map[string]bool{"at once": false, "once they are answered": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, func(cfg *ads.Config) {
				makeBeforeBreak(limit)(cfg)
				cfg.Plan.Stages[0].AtOnce = []string{endpoints}
			})
			c := s.delta()
			start(s, c)
			moved := routedTo("new")
			cluster := res("new", "1", served.Ref{TypeURL: endpoints, Name: "new"})
			cluster.Warms = warms
			moved[clusters] = served.NewSet(cluster)
			s.publish("r2", moved)

			cds := c.expect(clusters, "r2", "new=1").without(t)
			c.ask(endpoints, "new")
			eds := c.expect(endpoints, "r2", "new=1").without(t)
			c.quiet() // the client has not said that it can use the cluster
			c.ack(cds)
			if warms {
				c.quiet()
				c.ack(eds)
			}
			c.expect(listeners, "r2", "l-new=1").without(t)
			c.expect(routes, "r2", "r=new")
			c.quiet() // nothing breaks before the route has changed
		})
	}
}

func TestMakeBeforeBreakSotW(t *testing.T) {
	t.Parallel()
	s := serve(t, makeBeforeBreak(limit))
	c := s.sotw()
	start(s, c)
	s.publish("r2", routedTo("new"))

	c.ack(c.expect(clusters, "r2", "new=1", "old=1")) // both, for the route leads to the old one still
	c.quiet()
	c.send(ask{typeURL: endpoints, nonce: "any", names: []string{"old", "new"}})
	c.ack(c.expect(endpoints, "r2", "new=1"), "old", "new")
	lds := c.expect(listeners, "r2", "l-new=1", "l-old=1")
	rds := c.expect(routes, "r2", "r=new")
	c.ack(lds)
	c.quiet()
	c.ack(rds, "r")
	c.ack(c.expect(listeners, "r2", "l-new=1"))
	c.ack(c.expect(clusters, "r2", "new=1"))
	c.quiet()
}

func TestEndpointsAreEmptiedLast(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, connect func(*server) *client) {
		s := serve(t, makeBeforeBreak(limit))
		c := connect(s)
		start(s, c)
		empty := res("old", "none")
		empty.Empty = true
		rerouted := routedTo("old")
		rerouted[endpoints], rerouted[routes] = served.NewSet(empty), set("r=static")
		s.publish("r2", rerouted)

		rds := c.expect(routes, "r2", "r=static")
		c.quiet() // the route leads to the endpoints until the client has the new one
		c.ack(rds, "r")
		c.ack(c.expect(endpoints, "r2", "old=none"), "old")
		c.quiet()
	})
}

func TestAChangedClusterKeepsItsEndpointsUntilTheRouteHasChanged(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, connect func(*server) *client) {
		s := serve(t, makeBeforeBreak(limit))
		c := connect(s)
		start(s, c)
		empty := res("old", "none")
		empty.Empty = true
		s.publish("r2", sets{
			clusters:  served.NewSet(res("old", "2", served.Ref{TypeURL: endpoints, Name: "old"})),
			endpoints: served.NewSet(empty), listeners: set("l-old=1"), routes: set("r=static"),
		})

		c.ack(c.expect(clusters, "r2", "old=2"))
		c.ack(c.expect(endpoints, "r2", "old=1"), "old") // without which Envoy would not go on
		c.ack(c.expect(routes, "r2", "r=static"), "r")
		c.ack(c.expect(endpoints, "r2", "old=none"), "old")
		c.quiet()
	})
}

func TestTheFirstEndpointsOfAClientDoNotHoldUpThePlan(t *testing.T) {
	t.Parallel()
	s := serve(t, makeBeforeBreak(limit))
	s.publish("r1", sets{clusters: set("static=1"), routes: set("r=static")})
	c := s.delta()
	c.ask(clusters)
	c.ack(c.expect(clusters, "r1", "static=1"))
	c.ask(routes, "r")
	c.ack(c.expect(routes, "r1", "r=static"))
	s.publish("r2", routedTo("new"))
	c.ack(c.expect(clusters, "r2", "new=1"))
	c.ask(endpoints, "new") // the type is asked for while the plan is at the stage that makes it
	c.ack(c.expect(endpoints, "r2", "new=1"))
	c.expect(routes, "r2", "r=new")
}

func TestARefusedClusterIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	s := serve(t, makeBeforeBreak(limit))
	c := s.delta()
	start(s, c)
	s.publish("r2", routedTo("new"))
	c.nack(c.expect(clusters, "r2", "new=1"), "no")
	c.expect(listeners, "r2", "l-new=1")
}

func TestARefusedRouteKeepsItsCluster(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, connect func(*server) *client) {
		s := serve(t, makeBeforeBreak(limit))
		c := connect(s)
		start(s, c)
		refused := sets{
			clusters: set("new=1"), endpoints: set("old=1"), listeners: set("l-old=1"), routes: set("r=wrong"),
		}
		s.publish("r2", refused)
		c.ack(c.next())
		c.nack(c.expect(routes, "r2", "r=wrong"), "no", "r")
		c.quiet() // the old route is in force, and needs its cluster

		mended := maps.Clone(refused)
		mended[routes] = set("r=right")
		s.publish("r3", mended)
		c.ack(c.expect(routes, "r3", "r=right"), "r")
		require.Equal(t, clusters, c.next().typeURL) // without the old one
	})
}

func TestMissingEndpointsAreNotWaitedFor(t *testing.T) {
	t.Parallel()
	s := serve(t, makeBeforeBreak(limit))
	c := s.delta()
	start(s, c)
	next := routedTo("new")
	next[endpoints] = nil
	s.publish("r2", next)
	c.ack(c.expect(clusters, "r2", "new=1"))
	c.expect(listeners, "r2", "l-new=1")
}

func TestAClientThatNeverAnswersIsNotWaitedForLong(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, connect func(*server) *client) {
		s := serve(t, makeBeforeBreak(time.Millisecond))
		stuck, well := connect(s), connect(s)
		start(s, stuck)
		start(s, well)
		s.publish("r2", routedTo("new"))

		// The client answers for no clusters and asks for no endpoints, and the route changes all
		// the same.
		require.Equal(t, clusters, stuck.next().typeURL)
		require.Equal(t, listeners, stuck.next().typeURL)
		stuck.expect(routes, "r2", "r=new")

		require.Equal(t, clusters, well.next().typeURL)
	})
}

func TestATypeOutsideThePlanTravelsAtOnce(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, connect func(*server) *client) {
		s := serve(t, makeBeforeBreak(limit))
		c := connect(s)
		start(s, c)
		c.ask("test/Secret")
		c.ack(c.expect("test/Secret", "r1"))
		next := routedTo("new")
		next["test/Secret"] = set("s=1")
		s.publish("r2", next)
		require.Equal(t, clusters, c.next().typeURL)
		c.expect("test/Secret", "r2", "s=1")
	})
}
