package relay_test

import (
	"context"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/mesh-agent/xds/relay"
)

// scripted is a discovery whose behavior each test supplies.
type scripted struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer

	do      func(discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) error
	streams atomic.Int64
}

func (s *scripted) DeltaAggregatedResources(stream discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) error {
	s.streams.Add(1)
	return s.do(stream)
}

func (s *scripted) serve(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := grpc.NewServer()
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(server, s)
	var served sync.WaitGroup
	served.Go(func() { _ = server.Serve(listener) })
	t.Cleanup(func() { server.Stop(); served.Wait() })
	return listener.Addr().String()
}

type deltaStream = discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesClient

// open opens a stream and identifies itself, as Envoy does.
func open(t *testing.T, a *agent) deltaStream {
	t.Helper()
	conn, err := grpc.NewClient("unix:"+a.socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(t.Context())
	require.NoError(t, err)
	require.NoError(t, stream.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: cds, Node: &corev3.Node{Id: "raw"}}))
	return stream
}

// A client that does not read blocks discovery; the agent buffers a message or two.
func TestSlowEnvoyBlocksDiscovery(t *testing.T) {
	t.Parallel()
	var sent atomic.Int64
	stuck := make(chan struct{})
	body := make([]byte, 256<<10)
	d := &scripted{do: func(stream discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) error {
		for {
			ok := make(chan error, 1)
			go func() {
				ok <- stream.Send(&discoveryv3.DeltaDiscoveryResponse{TypeUrl: "t", Nonce: "1", SystemVersionInfo: string(body)})
			}()
			select {
			case err := <-ok:
				if err != nil {
					return err
				}
				sent.Add(1)
			case <-time.After(2 * time.Second):
				close(stuck)
				return <-ok
			}
			if sent.Load() > 1000 {
				return nil
			}
		}
	}}
	a := run(t, "", relay.Options{}, d.serve(t))
	stream := open(t, a)
	<-stuck
	require.Less(t, sent.Load(), int64(40), "10 MB are on the way at most, in four buffers of sockets, too")
	for range sent.Load() {
		_, err := stream.Recv()
		require.NoError(t, err)
	}
}

// The agent backs off from a discovery that refuses, however often Envoy reconnects, and passes the
// reason on if it concerns Envoy.
func TestBackoffFromARefusingDiscovery(t *testing.T) {
	t.Parallel()
	came := make(chan time.Time, 100)
	d := &scripted{do: func(discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) error {
		came <- time.Now()
		return status.Error(codes.Unavailable, "come back later")
	}}
	a := run(t, "", relay.Options{}, d.serve(t))
	stream := open(t, a)
	ended := make(chan error, 1)
	go func() {
		_, err := stream.Recv()
		ended <- err
	}()
	first, last := <-came, time.Time{}
	for range 4 {
		last = <-came
	}
	require.GreaterOrEqual(t, last.Sub(first), 700*time.Millisecond, "0.1 s, 0.2 s, 0.4 s, 0.8 s, and by chance half of each")
	require.Empty(t, ended, "Envoy is kept waiting")
	a.stop()
	<-ended

	refuses := &scripted{do: func(discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) error {
		return status.Error(codes.PermissionDenied, "you were revoked")
	}}
	_, err := open(t, run(t, "", relay.Options{}, refuses.serve(t))).Recv()
	require.Equal(t, codes.PermissionDenied, status.Code(err))
	require.ErrorContains(t, err, "you were revoked")

	ends := &scripted{do: func(discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) error { return nil }}
	_, err = open(t, run(t, "", relay.Options{}, ends.serve(t))).Recv()
	require.ErrorIs(t, err, io.EOF)
}

// Requests from before the first response are replayed in order to the next discovery, before any
// later ones.
func TestRequestsAreReplayed(t *testing.T) {
	t.Parallel()
	heard := make(chan []string, 10)
	var attempt atomic.Int64
	d := &scripted{do: func(stream discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) error {
		var types []string
		for range 3 {
			r, err := stream.Recv()
			if err != nil {
				return err
			}
			types = append(types, r.GetTypeUrl())
		}
		heard <- types
		if attempt.Add(1) == 1 {
			return status.Error(codes.Unavailable, "going away")
		}
		if err := stream.Send(&discoveryv3.DeltaDiscoveryResponse{TypeUrl: cds, Nonce: "1"}); err != nil {
			return err
		}
		r, err := stream.Recv()
		if err != nil {
			return err
		}
		heard <- []string{r.GetResponseNonce()}
		<-stream.Context().Done()
		return nil
	}}
	stream := open(t, run(t, "", relay.Options{}, d.serve(t)))
	for _, typeURL := range []string{eds, lds} {
		require.NoError(t, stream.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: typeURL}))
	}
	require.Equal(t, []string{cds, eds, lds}, <-heard)
	require.Equal(t, []string{cds, eds, lds}, <-heard)
	answer, err := stream.Recv()
	require.NoError(t, err)
	require.NoError(t, stream.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: cds, ResponseNonce: answer.GetNonce()}))
	require.Equal(t, []string{"1"}, <-heard)
}

// Discovery's stream ends when Envoy's does.
func TestStreamEndsWithEnvoy(t *testing.T) {
	t.Parallel()
	began, gone := make(chan struct{}), make(chan struct{})
	d := &scripted{do: func(stream discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) error {
		close(began)
		<-stream.Context().Done()
		close(gone)
		return nil
	}}
	a := run(t, "", relay.Options{}, d.serve(t))
	conn, err := grpc.NewClient("unix:"+a.socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer conn.Close()
	ctx, cancel := context.WithCancel(t.Context())
	stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx)
	require.NoError(t, err)
	require.NoError(t, stream.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: cds}))
	<-began
	cancel()
	<-gone
}
