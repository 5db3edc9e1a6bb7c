package ads_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/pgmesh/pgmesh/internal/ads"
)

// inParts makes each message hold one resource.
func inParts(cfg *ads.Config) { cfg.MostBytes = 1 }

func TestALargeResponseComesInParts(t *testing.T) {
	t.Parallel()
	s := serve(t, inParts)
	s.publish("r1", sets{clusters: set("a=1", "b=1", "c=1")})
	c := s.delta()
	c.ask(clusters)

	first := c.expect(clusters, "r1", "a=1")
	second := c.expect(clusters, "r1", "b=1")
	last := c.expect(clusters, "r1", "c=1")
	c.ack(first)
	c.ack(second)
	s.publish("r2", sets{clusters: set("a=2", "b=1")})
	c.quiet() // it has not answered the last
	require.NotContains(t, s.heard.all(), "acked "+clusters+" r1")
	c.ack(last)
	s.heard.await(t, "acked "+clusters+" r1")

	c.expect(clusters, "r2", "a=2").without(t)
	c.expect(clusters, "r2").without(t, "c")
}

func TestARefusedPartRefusesItsResponse(t *testing.T) {
	t.Parallel()
	s := serve(t, inParts)
	s.publish("r1", sets{clusters: set("a=1", "b=1")})
	c := s.delta()
	c.ask(clusters)
	first, last := c.next(), c.next()

	c.nack(first, "no a")
	c.ack(last)
	c.quiet()

	s.heard.await(t, "nacked "+clusters+" r1: no a")
	require.NotContains(t, s.heard.all(), "acked "+clusters+" r1")
	s.publish("r2", sets{clusters: set("a=2", "b=1")})
	c.ack(c.expect(clusters, "r2", "a=2"))
	s.heard.await(t, "acked "+clusters+" r2")
}

// In a state of the world, what a message does not list is removed. So it is one message.
func TestAStateOfTheWorldHasNoParts(t *testing.T) {
	t.Parallel()
	s := serve(t, inParts)
	s.publish("r1", sets{clusters: set("a=1", "b=1", "c=1")})
	c := s.sotw()
	c.ask(clusters)

	c.ack(c.expect(clusters, "r1", "a=1", "b=1", "c=1"))
	c.quiet()
}

// The mark comes after every part of what it marks.
func TestPartsComeBeforeTheMark(t *testing.T) {
	t.Parallel()
	s := serve(t, func(cfg *ads.Config) { batches(cfg); inParts(cfg) })
	s.publish("r1", sets{clusters: set("a=1", "b=1"), mark: set("mark=1")})
	c := s.delta()
	for _, typeURL := range []string{mark, clusters} {
		c.ask(typeURL)
	}
	var got []string
	for range 3 {
		a := c.next()
		got = append(got, a.resources...)
		c.ack(a)
	}
	require.ElementsMatch(t, []string{"a=1", "b=1", "mark=1"}, got)
	for i := 2; i < 5; i++ {
		s.publish(fmt.Sprint("r", i), sets{clusters: set(fmt.Sprint("a=", i), fmt.Sprint("b=", i)), mark: set(fmt.Sprint("mark=", i))})
		for _, want := range []string{"a", "b", "mark"} {
			a := c.next()
			require.Equal(t, []string{fmt.Sprint(want, "=", i)}, a.resources)
			c.ack(a)
		}
	}
}

// Streams also work on a gRPC server without the codec of package rpc.
func TestAnyServerOfGRPCCanSendResponses(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, connect func(*server) *client) {
		s := serveOn(t, grpc.NewServer(), nil)
		s.publish("r1", sets{clusters: set("a=1", "b=1")})
		c := connect(s)
		c.ask(clusters)
		c.ack(c.expect(clusters, "r1", "a=1", "b=1"))
	})
}
