package mcp_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/mcp"
)

// A response is acknowledged only after it was applied. So a server that waits for the
// acknowledgement, as the protocol demands, never has more than one response of a type in flight.
func TestAcknowledgedAfterApply(t *testing.T) {
	t.Parallel()
	s := newForeign(t)
	var applied atomic.Int64
	begun, goOn := make(chan struct{}), make(chan struct{})
	client := mcp.New(mcp.Config{
		Targets: []string{s.addr}, Kinds: both[:1], Name: "test",
		DialOptions: []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())},
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- client.Run(ctx, func(kinds.Batch) error {
			begun <- struct{}{}
			<-goOn
			applied.Add(1)
			return nil
		})
	}()
	g := s.accept(serviceEntry)
	for n := range int64(5) {
		g.say(serviceEntry.TypeURL(), fmt.Sprint(n), envelope(t, entry("a", fmt.Sprint(n)), ""))
		<-begun
		require.Equal(t, n, applied.Load())
		goOn <- struct{}{}
		g.acked(fmt.Sprint(n))
		require.Equal(t, n+1, applied.Load())
	}
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
}

// A server that sends unrequested types without end and reads nothing must not use up the client's
// memory.
func TestServerThatNeverReads(t *testing.T) {
	t.Parallel()
	s := newForeign(t)
	lost := make(chan error, 100)
	follow(t, s.addr, only(serviceEntry), func(cfg *mcp.Config) {
		cfg.Protocol, cfg.Down = mcp.XDS, func(err error) { lost <- err }
	})
	g := <-s.streams
	// Acknowledging a type takes as many bytes as its name, so the answers soon fill gRPC's send
	// window.
	for n := 0; ; n++ {
		if err := g.Send(&discoveryv3.DiscoveryResponse{TypeUrl: fmt.Sprint(n, strings.Repeat("x", 16<<10)), Nonce: "1"}); err != nil {
			break
		}
	}
	require.ErrorContains(t, <-lost, "does not read the answers")
}

// A refusal names undecodable resources, up to a limit.
func TestRefusalIsBounded(t *testing.T) {
	t.Parallel()
	s := newForeign(t)
	follow(t, s.addr, only(serviceEntry), func(cfg *mcp.Config) { cfg.Protocol = mcp.XDS })
	g := s.accept(serviceEntry)
	junk := bodies(t)
	for n := range 1000 {
		junk = append(junk, broken(t, fmt.Sprint("default/", n)))
	}
	g.say(serviceEntry.TypeURL(), "1", junk...)
	g.asked(serviceEntry.TypeURLs()[1:]...)
	message := g.refused().GetErrorDetail().GetMessage()
	require.Contains(t, message, "default/19")
	require.NotContains(t, message, "default/20")
	require.Contains(t, message, "and 980 more")
}

// A response without a nonce is not answered: the answer would be a new request.
func TestResponseWithoutNonce(t *testing.T) {
	t.Parallel()
	s := newForeign(t)
	f := follow(t, s.addr, only(serviceEntry))
	g := s.accept(serviceEntry)
	require.NoError(t, g.Send(&discoveryv3.DiscoveryResponse{TypeUrl: serviceEntry.TypeURL(), Resources: bodies(t, entry("a", "1"))}))
	f.expect(0, "ServiceEntry default/a=1")
	g.say(serviceEntry.TypeURL(), "2", envelope(t, entry("a", "2"), ""))
	f.expect(0, "ServiceEntry default/a=2")
	g.acked("2") // and this is the first answer
}
