package ads_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/internal/ads"
)

// A client that asks for the state of the world without a nonce is sent it again: it may have lost
// what it had. A client that keeps asking waits, and delays nobody else.
func TestWholeStatesAreSentAgainOnlySoOften(t *testing.T) {
	t.Parallel()
	s := serve(t, limited(ads.Limits{Again: 0.004, AgainBurst: 40}))
	s.publish("r1", sets{clusters: set("a=1")})
	flood, well := s.sotw(), s.sotw()
	well.ask(clusters)
	well.expect(clusters, "r1", "a=1")
	flood.ask(clusters)
	flood.expect(clusters, "r1", "a=1")
	for range 10 { // its share
		flood.send(ask{typeURL: clusters})
		flood.expect(clusters, "r1", "a=1")
	}
	flood.send(ask{typeURL: clusters})
	_, err := flood.form.recv()
	require.Equal(t, codes.ResourceExhausted, status.Code(err))
	require.ErrorContains(t, err, "answer a response with its nonce")
	require.ErrorContains(t, err, "--max-repeat-rate")
	require.Contains(t, s.heard.all(), "turned away by "+ads.RepeatLimit)

	again := s.sotw()
	again.ask(clusters)
	again.ack(again.expect(clusters, "r1", "a=1")) // what is asked for first is no repetition
	s.publish("r2", sets{clusters: set("a=2")})
	again.expect(clusters, "r2", "a=2")
}

func TestNamesAreSentAgainOnlySoOften(t *testing.T) {
	t.Parallel()
	s := serve(t, limited(ads.Limits{Again: 0.004, AgainBurst: 40, NamesAgain: 2}))
	s.publish("r1", sets{clusters: set("a=1", "b=1", "c=1")})
	c := s.delta()
	c.ask(clusters, "a", "b", "c")
	c.ack(c.expect(clusters, "r1", "a=1", "b=1", "c=1"))
	for range 20 { // one is not counted
		c.send(ask{typeURL: clusters, subscribe: []string{"a"}})
		c.ack(c.expect(clusters, "r1", "a=1"))
	}
	for range 10 {
		c.send(ask{typeURL: clusters, subscribe: []string{"a", "b", "new"}})
		c.ack(c.next())
	}
	c.send(ask{typeURL: clusters, subscribe: []string{"a", "b"}})
	_, err := c.form.recv()
	require.Equal(t, codes.ResourceExhausted, status.Code(err))
}

// versions are what a client says that it has, of a size on the wire of some 60 bytes each.
func versionsOf(n int) map[string]string {
	held := make(map[string]string, n)
	for i := range n {
		held[fmt.Sprintf("a-resource-of-a-namespace/with-a-name-%06d", i)] = "0123456789abcdef"
	}
	return held
}

// Large requests take memory until they are answered. Those of one client leave half of it to
// others.
func TestLargeRequestsShareABudgetOfMemory(t *testing.T) {
	t.Parallel()
	s := serve(t, func(cfg *ads.Config) {
		cfg.Limits.Memory = 16
		cfg.Reader = func(context.Context) string { return "greedy" }
	})
	first, second := s.delta(), s.delta()
	first.send(ask{typeURL: clusters, held: versionsOf(30_000)}) // 8 MiB with what is made of it, and no snapshot that answers
	s.heard.await(t, "opened "+nodeID)
	second.send(ask{typeURL: clusters, held: versionsOf(30_000)})
	_, err := second.form.recv()
	require.Equal(t, codes.ResourceExhausted, status.Code(err))
	require.ErrorContains(t, err, "--max-request-memory-mib")
	require.Contains(t, s.heard.all(), "turned away by "+ads.MemoryLimit)

	small := s.delta()
	small.ask(listeners)
	s.publish("r1", sets{clusters: set("a=1"), listeners: set("l=1")})
	small.expect(listeners, "r1", "l=1")
	first.next()
	third := s.delta() // what was answered takes none any more, be the stream open
	third.send(ask{typeURL: clusters, held: versionsOf(30_000)})
	require.Len(t, third.next().removed, 30_000)
}

// A large request that needs no answer holds no memory, and neither does a client that is gone.
func TestAnAnsweredRequestGivesItsMemoryBack(t *testing.T) {
	t.Parallel()
	var budgets *ads.Budgets
	s := serve(t, func(cfg *ads.Config) {
		cfg.Limits.Memory = 64
		budgets = cfg.Limits.Budgets(ads.Observers{})
		cfg.Budgets = budgets
	})
	s.publish("r1", sets{clusters: set("a=1")})
	eachOf := []*client{s.delta(), s.sotw()}
	for _, c := range eachOf {
		c.ask(clusters)
		a := c.next()
		c.send(ask{typeURL: clusters, nonce: a.nonce, unsubscribe: []string{strings.Repeat("x", 1<<20)}, names: []string{strings.Repeat("x", 1<<20)}})
		c.send(ask{typeURL: listeners})
		c.next()
		c.cancel()
	}
	require.Eventually(t, func() bool { return budgets.Memory.Used() == 0 }, limit, time.Millisecond)
}
