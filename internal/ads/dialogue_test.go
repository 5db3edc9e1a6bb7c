package ads_test

import (
	"context"
	"io"
	"sync"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/pgmesh/pgmesh/internal/ads"
)

// dialogue is a delta stream without a connection. Its client makes the given requests and accepts
// everything, so nearly all memory and time that it takes are of this package.
type dialogue struct {
	ctx      context.Context //nolint:containedctx // a stream has a context
	said     chan []byte     // requests, as they come over the wire
	received *sync.WaitGroup // done for each response that was accepted
}

func (d *dialogue) RecvMsg(m any) error {
	select {
	case text := <-d.said:
		return proto.Unmarshal(text, m.(proto.Message))
	case <-d.ctx.Done():
		return io.EOF
	}
}

func (d *dialogue) SendMsg(m any) error {
	accept := &discoveryv3.DeltaDiscoveryRequest{}
	for _, piece := range m.(interface{ Encoded() mem.BufferSlice }).Encoded() {
		for b := piece.ReadOnlyData(); len(b) > 0; {
			field, kind, n := protowire.ConsumeTag(b)
			if n < 0 || kind != protowire.BytesType {
				break // it goes on in the middle of a resource
			}
			value, length := protowire.ConsumeBytes(b[n:])
			if length < 0 {
				break
			}
			if b = b[n+length:]; field == 4 {
				accept.TypeUrl = string(value)
			} else if field == 5 {
				accept.ResponseNonce = string(value)
			}
		}
		if accept.GetResponseNonce() != "" {
			break
		}
	}
	text, err := proto.Marshal(accept)
	d.said <- text
	d.received.Done()
	return err
}

func (d *dialogue) Send(*discoveryv3.DeltaDiscoveryResponse) error {
	panic("responses are sent as they are encoded")
}
func (d *dialogue) Context() context.Context { return d.ctx }
func (d *dialogue) Recv() (*discoveryv3.DeltaDiscoveryRequest, error) {
	m := &discoveryv3.DeltaDiscoveryRequest{}
	return m, d.RecvMsg(m)
}
func (d *dialogue) SetHeader(metadata.MD) error  { return nil }
func (d *dialogue) SendHeader(metadata.MD) error { return nil }
func (d *dialogue) SetTrailer(metadata.MD)       {}

// crowd is many clients in dialogue with one server.
type crowd struct {
	received sync.WaitGroup
	left     sync.WaitGroup
	leave    context.CancelFunc
}

// gather opens streams whose clients ask for what the requests say.
func gather(server *ads.Server, streams int, requests ...*discoveryv3.DeltaDiscoveryRequest) *crowd {
	ctx, leave := context.WithCancel(context.Background())
	c := &crowd{leave: leave}
	c.received.Add(streams * len(requests))
	for range streams {
		d := &dialogue{ctx: ctx, said: make(chan []byte, 2*len(requests)), received: &c.received}
		for _, r := range requests {
			text, err := proto.Marshal(r)
			if err != nil {
				panic(err)
			}
			d.said <- text
		}
		c.left.Go(func() { _ = server.DeltaAggregatedResources(d) })
	}
	c.received.Wait()
	return c
}

func (c *crowd) disperse() {
	c.leave()
	c.left.Wait()
}
