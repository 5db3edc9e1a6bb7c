package faultnet_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/pgmesh/pgmesh/mcp-client/mcp"
)

// shuffler forwards ADS streams, but repeats responses, some long after others of their type, and
// lets those of one type overtake those of another.
type shuffler struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer
	server discoveryv3.AggregatedDiscoveryServiceClient
	seed   uint64

	mu                 sync.Mutex
	repeated, overtook int
}

func shuffle(t *testing.T, server string, seed uint64) (*shuffler, string) {
	t.Helper()
	conn, err := grpc.NewClient(server, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	s := &shuffler{server: discoveryv3.NewAggregatedDiscoveryServiceClient(conn), seed: seed}
	g := grpc.NewServer(grpc.WaitForHandlers(true))
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(g, s)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- g.Serve(l) }()
	t.Cleanup(func() {
		g.Stop()
		require.NoError(t, <-served)
		require.NoError(t, conn.Close())
	})
	return s, l.Addr().String()
}

func (s *shuffler) StreamAggregatedResources(client discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesServer) error {
	ctx, cancel := context.WithCancel(client.Context())
	defer cancel()
	server, err := s.server.StreamAggregatedResources(ctx)
	if err != nil {
		return err
	}
	return pass[discoveryv3.DiscoveryRequest, discoveryv3.DiscoveryResponse, *discoveryv3.DiscoveryResponse](ctx, s, client, server)
}

func (s *shuffler) DeltaAggregatedResources(client discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) error {
	ctx, cancel := context.WithCancel(client.Context())
	defer cancel()
	server, err := s.server.DeltaAggregatedResources(ctx)
	if err != nil {
		return err
	}
	return pass[discoveryv3.DeltaDiscoveryRequest, discoveryv3.DeltaDiscoveryResponse, *discoveryv3.DeltaDiscoveryResponse](ctx, s, client, server)
}

// response is a pointer to a message of one form or the other.
type response[M any] interface {
	*M
	GetTypeUrl() string
}

// pass forwards a stream: requests as they are, responses out of order.
func pass[Q, M any, R response[M]](ctx context.Context, s *shuffler, client grpc.BidiStreamingServer[Q, M], server grpc.BidiStreamingClient[Q, M]) error {
	go func() {
		for {
			r, err := client.Recv()
			if err != nil || server.Send(r) != nil {
				return
			}
		}
	}()
	arrived, ended := make(chan R), make(chan error, 1)
	go func() {
		for {
			r, err := server.Recv()
			if err != nil {
				ended <- err
				return
			}
			select {
			case arrived <- r:
			case <-ctx.Done():
				return
			}
		}
	}()
	d := &disorder[M, R]{s: s, random: rand.New(rand.NewPCG(s.seed, 11)), past: map[string][]R{}}
	for {
		var late <-chan time.Time
		if len(d.waiting) > 0 { // what comes meanwhile may overtake it
			late = time.After(time.Millisecond)
		}
		select {
		case r := <-arrived:
			d.waiting = append(d.waiting, r)
			continue
		case <-late:
		case err := <-ended:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
		for _, r := range d.next() {
			if err := client.Send(r); err != nil {
				return err
			}
		}
	}
}

// disorder is what is on its way to a client.
type disorder[M any, R response[M]] struct {
	s       *shuffler
	random  *rand.Rand
	waiting []R
	past    map[string][]R // by type, for repetition
}

// next is the first response of a random waiting type, sometimes followed by an old one of the same
// type.
func (d *disorder[M, R]) next() []R {
	chosen := d.waiting[d.random.IntN(len(d.waiting))].GetTypeUrl()
	i := slices.IndexFunc(d.waiting, func(r R) bool { return r.GetTypeUrl() == chosen })
	r := d.waiting[i]
	d.waiting = slices.Delete(d.waiting, i, i+1)
	d.past[chosen] = append(d.past[chosen], r)
	said := []R{r}
	if d.random.IntN(3) == 0 {
		said = append(said, d.past[chosen][d.random.IntN(len(d.past[chosen]))])
	}
	d.s.mu.Lock()
	defer d.s.mu.Unlock()
	d.s.repeated += len(said) - 1
	if i > 0 {
		d.s.overtook++
	}
	return said
}

// Repeated and reordered messages change nothing. They do not even tear transactions.
func TestRepeatedAndOutOfOrder(t *testing.T) {
	t.Parallel()
	for _, protocol := range []mcp.Protocol{mcp.Delta, mcp.XDS} {
		for seed := range uint64(3) {
			t.Run(fmt.Sprint(protocol, " seed ", seed), func(t *testing.T) {
				t.Parallel()
				m := newMesh(t, seed)
				s, address := shuffle(t, m.replica(), seed)
				r := read(t, protocol, true, address)
				for range 10 {
					for range m.random.IntN(4) {
						m.commit()
					}
					r.await(m.state())
				}
				s.mu.Lock()
				defer s.mu.Unlock()
				require.Positive(t, s.repeated)
				require.Positive(t, s.overtook)
			})
		}
	}
}
