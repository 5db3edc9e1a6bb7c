package e2e

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"
	mcpv1 "istio.io/api/mcp/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/mcp"
)

const (
	writers             = 4
	transactionsEach    = 40
	virtualServiceCount = 3
)

// Concurrent transactions each set one number in four resources of two kinds. A client that sees
// two numbers has seen half of one.
func TestTransactionsArriveWhole(t *testing.T) {
	t.Parallel()
	control, database := common.get(t)
	m := meshWithoutEnvoy(t, control, database)
	m.setNumbers(0)
	incremental, stateOfTheWorld, stock := &watcher{mesh: m}, &watcher{mesh: m}, &watcher{mesh: m}
	ctx, stop := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	watching.Go(func() { incremental.ended(incremental.followLibrary(ctx, mcp.Auto)) })
	watching.Go(func() { stateOfTheWorld.ended(stateOfTheWorld.followLibrary(ctx, mcp.XDS)) })
	watching.Go(func() { stock.ended(stock.followStock(ctx)) })
	defer watching.Wait()
	defer stop()

	var writing sync.WaitGroup
	for w := range writers {
		writing.Go(func() {
			for i := range transactionsEach {
				m.setNumbers(1 + w*transactionsEach + i)
			}
		})
	}
	writing.Wait()

	last := m.lastNumber()
	for _, w := range []*watcher{incremental, stateOfTheWorld, stock} {
		eventually(t, func(context.Context) error { return w.hasSeen(last) })
	}
	stop()
	watching.Wait()
	for _, w := range []*watcher{incremental, stateOfTheWorld, stock} {
		require.ErrorIs(t, w.end, context.Canceled)
	}
}

// setNumbers writes a number into three VirtualServices and a DestinationRule, always in this
// order, so that writers cannot deadlock.
func (m *mesh) setNumbers(n int) {
	m.t.Helper()
	m.transaction(func(tx pgx.Tx) {
		for i := range virtualServiceCount {
			m.put(tx, virtualService(fmt.Sprintf("whole-%d.mesh", i), fmt.Sprintf(`http: [{directResponse: {status: 200, body: {string: "%d"}}}]`, n)))
		}
		m.put(tx, subsets("whole.mesh", strconv.Itoa(n)))
	})
}

func (m *mesh) lastNumber() (n int) {
	m.t.Helper()
	var text string
	require.NoError(m.t, m.db.QueryRow(m.t.Context(), `SELECT spec #>> '{subsets,0,name}' FROM mesh.resources
		WHERE kind = 'DestinationRule' AND namespace = $1 AND name = 'whole'`, m.namespace).Scan(&text))
	n, err := strconv.Atoi(text)
	require.NoError(m.t, err)
	return n
}

// watcher has the numbers that a client has seen.
type watcher struct {
	mesh *mesh

	mu       sync.Mutex
	end      error             // of following, once it has ended
	numbers  map[string]string // by resource
	revision int64
}

func (w *watcher) ended(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.end = err
}

// hasSeen returns an error unless the newest number is this one.
func (w *watcher) hasSeen(n int) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, number := range w.numbers {
		if number == strconv.Itoa(n) {
			return nil
		}
	}
	return fmt.Errorf("has seen %v, want %d (ended: %w)", w.numbers, n, w.end)
}

// note records the number of a resource; nil means that the resource is gone.
func (w *watcher) note(name string, spec proto.Message) {
	if w.numbers == nil {
		w.numbers = map[string]string{}
	}
	switch s := spec.(type) {
	case *networking.VirtualService:
		w.numbers["VirtualService "+name] = s.Http[0].DirectResponse.Body.GetString_()
	case *networking.DestinationRule:
		w.numbers["DestinationRule "+name] = s.Subsets[0].Name
	}
}

// check returns an error if there are two numbers, or if some resources lack the number. A watcher
// may come before the resources.
func (w *watcher) check(resources int) error {
	if len(w.numbers) != resources && len(w.numbers) > 0 {
		return fmt.Errorf("there are %d resources, want %d: %v", len(w.numbers), resources, w.numbers)
	}
	var one string
	for _, n := range w.numbers {
		if one == "" {
			one = n
		}
		if n != one {
			return fmt.Errorf("at revision %d there are different numbers: %v", w.revision, w.numbers)
		}
	}
	return nil
}

// followLibrary watches with the client library.
func (w *watcher) followLibrary(ctx context.Context, protocol mcp.Protocol) error {
	client := mcp.New(mcp.Config{
		Targets: []string{w.mesh.MCP}, Name: "watcher", Protocol: protocol,
		DialOptions: []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())},
	})
	return client.Run(ctx, func(b kinds.Batch) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if b.Revision <= w.revision {
			return fmt.Errorf("revision %d came after %d", b.Revision, w.revision)
		}
		w.revision = b.Revision
		for _, c := range b.Changes {
			if c.Key.Namespace == w.mesh.namespace && c.Resource != nil {
				w.note(c.Key.Name, c.Resource.Spec.Message())
			}
		}
		return w.check(virtualServiceCount + 1)
	})
}

// followStock watches one type as any ADS client does, which knows no batches. Within a type, too,
// nothing may be half done.
func (w *watcher) followStock(ctx context.Context) error {
	conn, err := grpc.NewClient(w.mesh.MCP, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).StreamAggregatedResources(ctx)
	if err != nil {
		return err
	}
	next := &discoveryv3.DiscoveryRequest{
		Node: &corev3.Node{Id: "sidecar~127.0.0.1~stock.default~default.svc.cluster.local"}, TypeUrl: "networking.istio.io/v1alpha3/VirtualService",
	}
	for {
		if err := stream.Send(next); err != nil {
			return errors.Join(err, ctx.Err())
		}
		response, err := stream.Recv()
		if err != nil {
			return errors.Join(err, ctx.Err())
		}
		if err := w.takeStock(response); err != nil {
			return err
		}
		next = &discoveryv3.DiscoveryRequest{TypeUrl: next.TypeUrl, VersionInfo: response.VersionInfo, ResponseNonce: response.Nonce}
	}
}

func (w *watcher) takeStock(response *discoveryv3.DiscoveryResponse) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, body := range response.Resources {
		envelope, spec := &mcpv1.Resource{}, &networking.VirtualService{}
		if err := body.UnmarshalTo(envelope); err != nil {
			return err
		}
		for i := range virtualServiceCount {
			if envelope.Metadata.Name == fmt.Sprintf("%s/whole-%d", w.mesh.namespace, i) {
				if err := envelope.Body.UnmarshalTo(spec); err != nil {
					return err
				}
				w.note(envelope.Metadata.Name, spec)
			}
		}
	}
	return w.check(virtualServiceCount)
}
