package ads_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/ads/served"
)

// comeBack asks as an Envoy that has the mesh of start: for all types, before it reads an answer.
func (c *client) comeBack(types ...string) {
	c.t.Helper()
	had := map[string]ask{
		clusters:  {typeURL: clusters, held: map[string]string{"old": "1"}},
		endpoints: {typeURL: endpoints, subscribe: []string{"old"}, held: map[string]string{"old": "1"}},
		listeners: {typeURL: listeners, held: map[string]string{"l-old": "1"}},
		routes:    {typeURL: routes, subscribe: []string{"r"}, held: map[string]string{"r": "old"}},
	}
	for _, typeURL := range types {
		c.send(had[typeURL])
	}
}

func TestAReturningClientKeepsTheClusterOfItsRoute(t *testing.T) {
	t.Parallel()
	s := serve(t, makeBeforeBreak(limit))
	s.publish("r2", routedTo("new"))
	c := s.delta()
	c.comeBack(clusters, endpoints, listeners, routes)

	cds, eds := c.expect(clusters, "r2", "new=1").without(t), c.expect(endpoints, "r2").without(t)
	c.quiet()
	c.ack(eds)
	c.ack(cds)
	c.quiet() // not before the new cluster's endpoints are asked for,
	c.ask(endpoints, "new")
	eds = c.expect(endpoints, "r2", "new=1").without(t)
	c.quiet() // and answered
	c.ack(eds)
	lds, rds := c.expect(listeners, "r2", "l-new=1").without(t), c.expect(routes, "r2", "r=new")
	c.ack(lds)
	c.quiet() // nothing breaks before the route has changed
	c.ack(rds)
	c.ack(c.expect(listeners, "r2").without(t, "l-old"))
	c.expect(clusters, "r2").without(t, "old")
	c.expect(endpoints, "r2").without(t, "old")
	c.quiet()
}

// Envoy does not ask for clusters while some are warming.
func TestThePlanWaitsForAReturningClientToAskForItsClusters(t *testing.T) {
	t.Parallel()
	s := serve(t, makeBeforeBreak(limit))
	s.publish("r2", routedTo("new"))
	c := s.delta()
	c.comeBack(endpoints, listeners, routes)
	c.ack(c.expect(endpoints, "r2").without(t))
	c.ack(c.expect(endpoints, "r2").without(t, "old")) // which is no news to a cluster that is there, and all to one that is warming
	c.quiet()
	c.comeBack(clusters)
	cds := c.expect(clusters, "r2", "new=1").without(t)
	c.quiet()
	c.ack(cds)
	c.ask(endpoints, "new")
	c.ack(c.expect(endpoints, "r2", "new=1"))
	lds, rds := c.expect(listeners, "r2", "l-new=1").without(t), c.expect(routes, "r2", "r=new")
	c.ack(lds)
	c.ack(rds)
	c.ack(c.expect(listeners, "r2").without(t, "l-old"))
	c.expect(clusters, "r2").without(t, "old")
	c.quiet()
}

func TestAReturningClientKeepsItsEndpointsUntilTheRouteHasChanged(t *testing.T) {
	t.Parallel()
	s := serve(t, makeBeforeBreak(limit))
	empty := res("old", "none")
	empty.Empty = true
	rerouted := routedTo("old")
	rerouted[endpoints], rerouted[routes] = served.NewSet(empty), set("r=static")
	s.publish("r2", rerouted)
	c := s.delta()
	c.comeBack(clusters, endpoints, listeners, routes)
	c.ack(c.expect(clusters, "r2").without(t))
	c.ack(c.expect(endpoints, "r2").without(t))
	lds, rds := c.expect(listeners, "r2"), c.expect(routes, "r2", "r=static")
	c.ack(lds)
	c.quiet()
	c.ack(rds)
	c.expect(endpoints, "r2", "old=none")
	c.quiet()
}

// A changed cluster needs its endpoints again. Of those that a client has from an earlier stream
// only the version is known, so they cannot be sent again as they were.
func TestAReturningClientKeepsTheEndpointsOfAChangedClusterUntilTheRouteHasChanged(t *testing.T) {
	t.Parallel()
	s := serve(t, makeBeforeBreak(limit))
	empty := res("old", "none")
	empty.Empty = true
	changed := res("old", "2", served.Ref{TypeURL: endpoints, Name: "old"})
	s.publish("r2", sets{clusters: served.NewSet(changed), endpoints: served.NewSet(empty), listeners: set("l-old=1"), routes: set("r=static")})
	for _, order := range [][]string{{clusters, endpoints, listeners, routes}, {endpoints, clusters, listeners, routes}} {
		c := s.delta()
		c.comeBack(order...)
		for range 2 {
			a := c.next()
			if a.typeURL == clusters {
				require.Equal(t, []string{"old=2"}, a.resources)
			} else {
				require.Empty(t, a.resources)
			}
			c.ack(a)
		}
		lds, rds := c.expect(listeners, "r2"), c.expect(routes, "r2", "r=static")
		c.ack(lds)
		c.quiet()
		c.ack(rds)
		c.ack(c.expect(endpoints, "r2", "old=none"))
		c.quiet()
	}
}

// What a client is offered may depend on the names that it sends. Nothing that it has not named yet
// is removed.
func TestAReturningClientIsBroughtToTheNewestSnapshot(t *testing.T) {
	t.Parallel()
	s := serve(t, makeBeforeBreak(limit))
	s.publish("r2", routedTo("new"))
	c := s.delta()
	c.comeBack(clusters)
	cds := c.expect(clusters, "r2", "new=1").without(t)
	s.publish("r3", routedTo("old"))
	c.comeBack(endpoints, listeners, routes)
	eds := c.expect(endpoints, "r3").without(t)
	c.ack(eds)
	c.ack(cds)
	c.ack(c.expect(listeners, "r3").without(t))
	c.ack(c.expect(routes, "r3").without(t))
	c.expect(clusters, "r3").without(t, "new")
	c.quiet()
}

// A client that has only clusters, as an Envoy whose stream ended while it started, has nothing
// that leads to them.
func TestThePlanDoesNotWaitForWhatAReturningClientNeverHad(t *testing.T) {
	t.Parallel()
	s := serve(t, makeBeforeBreak(limit))
	s.publish("r2", routedTo("new"))
	c := s.delta()
	c.comeBack(clusters)
	cds := c.expect(clusters, "r2", "new=1").without(t)
	c.quiet()
	c.ask(endpoints, "new", "old")
	eds := c.expect(endpoints, "r2", "new=1").without(t, "old")
	c.ack(cds)
	c.ack(eds)
	c.expect(clusters, "r2").without(t, "old")
	c.quiet()
}

func TestAReturningClientThatNeverAnswersIsNotWaitedForLong(t *testing.T) {
	t.Parallel()
	s := serve(t, makeBeforeBreak(time.Millisecond))
	s.publish("r2", routedTo("new"))
	c := s.delta()
	c.comeBack(clusters, listeners, routes)
	c.expect(clusters, "r2", "new=1").without(t)
	c.expect(listeners, "r2", "l-new=1").without(t)
	c.expect(routes, "r2", "r=new")

	// Nor does it wait for a client that asks for no clusters.
	other := s.delta()
	other.comeBack(listeners, routes)
	other.expect(listeners, "r2", "l-new=1").without(t)
	other.ack(other.expect(routes, "r2", "r=new"))
	other.quiet()
}

// A client that has nothing is sent everything at once, without waiting for its answers.
func TestANewClientWaitsForNothing(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, connect func(*server) *client) {
		s := serve(t, makeBeforeBreak(limit))
		s.publish("r1", routedTo("old"))
		c := connect(s)
		c.ask(clusters)
		c.ask(endpoints, "old")
		c.ask(listeners)
		c.ask(routes, "r")
		c.expect(clusters, "r1", "old=1")
		c.expect(endpoints, "r1", "old=1")
		c.expect(listeners, "r1", "l-old=1")
		c.expect(routes, "r1", "r=old")
		c.quiet()
	})
}
