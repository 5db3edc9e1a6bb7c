package ads_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/ads"
	"github.com/pgmesh/pgmesh/internal/ads/served"
)

// stateOf returns the types of a server's only stream.
func stateOf(t *testing.T, s *server) map[string]ads.TypeState {
	t.Helper()
	streams := s.ads.Streams()
	require.Len(t, streams, 1)
	states := map[string]ads.TypeState{}
	for _, state := range streams[0].Types() {
		states[state.TypeURL] = state
	}
	return states
}

func TestAStreamTellsWhatWasSentAndAnswered(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, connect func(*server) *client) {
		s := serve(t, nil)
		before, line := time.Now(), set("a=1", "b=1")
		s.publish("r1", sets{clusters: line, endpoints: set("e=1")})
		c := connect(s)
		c.ask(clusters)
		first := c.expect(clusters, "r1", "a=1", "b=1")
		c.quiet()

		got := stateOf(t, s)[clusters]
		require.True(t, got.Wildcard)
		require.Equal(t, 2, got.Has.Len())
		require.True(t, got.Unanswered)
		require.False(t, got.Behind)
		require.Zero(t, got.Accepted)
		require.Equal(t, "r1", got.Sent.Revision)
		require.Equal(t, 2, got.Sent.Resources)
		require.WithinRange(t, got.Sent.At, before, time.Now())
		require.Greater(t, got.Sent.Bytes, len("a=1")+len("b=1"))

		s.publish("r2", sets{clusters: line.With([]*served.Resource{res("a", "2")}, nil), endpoints: set("e=1")})
		c.quiet()
		require.True(t, stateOf(t, s)[clusters].Behind, "it has not answered the response before")
		c.ack(first)
		second := c.next()
		require.False(t, stateOf(t, s)[clusters].Behind)
		c.nack(second, "not this one")
		s.heard.await(t, "nacked "+clusters+" r2: not this one")
		got = stateOf(t, s)[clusters]
		require.Equal(t, "r1", got.Accepted.Revision)
		require.Equal(t, "r2", got.Rejected.Revision)
		require.Equal(t, "not this one", got.Rejected.Reason)
		require.WithinRange(t, got.Rejected.At, got.Accepted.At, time.Now())
		require.False(t, got.Unanswered)

		c.ask(endpoints, "e", "missing")
		c.next()
		got = stateOf(t, s)[endpoints]
		require.False(t, got.Wildcard)
		require.Equal(t, 2, got.Names)
		require.Equal(t, 1, got.Has.Len())
	})
}

func TestAStreamTellsOfEveryPartOfAResponse(t *testing.T) {
	t.Parallel()
	s := serve(t, inParts)
	s.publish("r1", sets{clusters: set("a=1", "b=1", "c=1")})
	c := s.delta()
	c.ask(clusters)
	for range 3 {
		c.next()
	}
	require.Equal(t, 3, stateOf(t, s)[clusters].Sent.Resources)
}

func TestAStreamTellsHowFarAChangeHasCome(t *testing.T) {
	t.Parallel()
	s := serve(t, makeBeforeBreak(limit))
	c := s.delta()
	start(s, c)
	state := func() ads.StreamState { return s.ads.Streams()[0].State() }
	require.Equal(t, "r1", state().Revision)
	require.Zero(t, state().Stage)

	s.publish("r2", routedTo("new"))
	cds := c.expect(clusters, "r2", "new=1")
	s.publish("r3", routedTo("newer"))
	c.quiet()
	at := state()
	require.Equal(t, ads.StreamState{Revision: "r2", Newest: "r3", Stage: 1, Stages: 5, Since: at.Since}, at)
	c.nack(cds, "then not")
	c.expect(listeners, "r2", "l-new=1")
	require.Greater(t, state().Stage, 1)
}

func TestTheServerListsItsStreams(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.publish("r1", nil)
	first := s.delta()
	first.ask(clusters)
	first.next()
	second := s.sotw()
	second.ask(clusters)
	second.next()

	streams := s.ads.Streams()
	require.Len(t, streams, 2)
	require.True(t, streams[0].Incremental(), "the oldest comes first")
	require.False(t, streams[1].Incremental())
	require.False(t, streams[0].Since().After(streams[1].Since()))
	require.Contains(t, streams[0].Peer(), "127.0.0.1:")
	require.Equal(t, nodeID, streams[0].Node().GetId())

	first.cancel()
	s.heard.await(t, "closed "+nodeID)
	require.Equal(t, streams[1:], s.ads.Streams())
}
