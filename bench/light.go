package main

import (
	"context"
	"fmt"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"

	"github.com/pgmesh/pgmesh/internal/testbench/frames"
	"github.com/pgmesh/pgmesh/kinds"
	mcpv1 "github.com/pgmesh/pgmesh/proto/pgmesh/mcp/v1"
)

// light is a client that subscribes to everything and to the ends of batches, acknowledges
// responses and keeps nothing, so that the server is what is measured.
type light struct {
	conn   *grpc.ClientConn
	stream grpc.ClientStream

	bytes, resources int64
	changed          string // the revision of the last response with resources
}

func newLight(ctx context.Context, address, node string) (*light, error) {
	conn, err := frames.Dial(address)
	if err != nil {
		return nil, err
	}
	stream, err := frames.Open(ctx, conn, discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResources_FullMethodName)
	if err != nil {
		return nil, err
	}
	c := &light{conn: conn, stream: stream}
	who := &corev3.Node{Id: node}
	for _, k := range kinds.All() {
		if err := stream.SendMsg(&discoveryv3.DeltaDiscoveryRequest{Node: who, TypeUrl: k.TypeURL()}); err != nil {
			return nil, err
		}
		who = nil
	}
	return c, stream.SendMsg(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: mcpv1.BatchTypeURL})
}

// batch reads up to the end of a batch, and returns its revision.
func (c *light) batch() (revision string, err error) {
	for {
		h, err := c.next()
		if err != nil {
			return "", err
		}
		if h.typeURL == mcpv1.BatchTypeURL {
			return h.revision, nil
		}
		if h.resources > 0 {
			c.changed = h.revision
		}
	}
}

func (c *light) next() (head, error) {
	var f frames.Frame
	if err := c.stream.RecvMsg(&f); err != nil {
		return head{}, fmt.Errorf("receive a response: %w", err)
	}
	data := f.Whole()
	defer data.Free()
	h, err := readHead(data.ReadOnlyData())
	if err != nil {
		return h, err
	}
	c.bytes += int64(data.Len())
	if h.typeURL != mcpv1.BatchTypeURL {
		c.resources += int64(h.resources)
	}
	return h, c.stream.SendMsg(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: h.typeURL, ResponseNonce: h.nonce})
}
