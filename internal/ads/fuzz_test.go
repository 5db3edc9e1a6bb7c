package ads_test

import (
	"bytes"
	"context"
	"io"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protodelim"
	"google.golang.org/protobuf/proto"

	"github.com/pgmesh/pgmesh/internal/ads"
	"github.com/pgmesh/pgmesh/internal/ads/served"
)

// conversation is a stream whose client has made all its requests before it begins. It ends when
// they are answered.
type conversation[Q any, P message[Q]] struct {
	ctx   context.Context //nolint:containedctx // a stream has a context
	said  []P
	heard [][]byte
}

// message is a pointer to a request of one form.
type message[Q any] interface {
	*Q
	proto.Message
	GetTypeUrl() string
}

// converse reads requests from the bytes of a fuzzer.
func converse[Q any, P message[Q]](ctx context.Context, text []byte) *conversation[Q, P] {
	c := &conversation[Q, P]{ctx: ctx}
	for r := bytes.NewReader(text); len(c.said) < 30; {
		m := P(new(Q))
		if (protodelim.UnmarshalOptions{MaxSize: 1 << 16}).UnmarshalFrom(r, m) != nil {
			break // gRPC refuses it
		}
		c.said = append(c.said, m)
	}
	return c
}

func (c *conversation[Q, P]) RecvMsg(m any) error {
	if len(c.said) == 0 {
		return io.EOF
	}
	next := c.said[0]
	c.said = c.said[1:]
	proto.Merge(m.(proto.Message), next)
	return nil
}

// SendMsg takes what goes over the wire.
func (c *conversation[Q, P]) SendMsg(m any) error {
	encoded, err := proto.Marshal(m.(proto.Message))
	c.heard = append(c.heard, encoded)
	return err
}

func (c *conversation[Q, P]) Context() context.Context { return c.ctx }
func (c *conversation[Q, P]) Recv() (*Q, error) {
	m := new(Q)
	return m, c.RecvMsg(P(m))
}
func (c *conversation[Q, P]) SetHeader(metadata.MD) error  { return nil }
func (c *conversation[Q, P]) SendHeader(metadata.MD) error { return nil }
func (c *conversation[Q, P]) SetTrailer(metadata.MD)       {}

type sotwTalk struct {
	*conversation[discoveryv3.DiscoveryRequest, *discoveryv3.DiscoveryRequest]
}

func (sotwTalk) Send(*discoveryv3.DiscoveryResponse) error {
	panic("responses are sent as they are encoded")
}

type deltaTalk struct {
	*conversation[discoveryv3.DeltaDiscoveryRequest, *discoveryv3.DeltaDiscoveryRequest]
}

func (deltaTalk) Send(*discoveryv3.DeltaDiscoveryResponse) error {
	panic("responses are sent as they are encoded")
}

// fuzzed returns the server for clients of the fuzzer.
func fuzzed(plan func(*ads.Config)) *ads.Server {
	topic := &served.Topic{}
	topic.Publish(&served.Snapshot{Revision: "r1", Sets: sets{
		clusters: set("a=1", "b=1"), endpoints: set("a=1"), listeners: set("l=1"), routes: set("r=1"), mark: set("mark=1"),
	}})
	cfg := ads.Config{Open: open(topic), Named: named, Identifier: "test", MostBytes: 40}
	if plan != nil {
		plan(&cfg)
	}
	return ads.NewServer(cfg)
}

// Whatever a client requests, the server does not crash, and responds only about types that were
// asked for.
func FuzzRequests(f *testing.F) {
	for _, seed := range requests(f) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, plan := range []func(*ads.Config){nil, batches, makeBeforeBreak(limit)} {
			sotw := sotwTalk{converse[discoveryv3.DiscoveryRequest, *discoveryv3.DiscoveryRequest](t.Context(), text)}
			asked := typesOf(sotw.said)
			require.NoError(t, fuzzed(plan).StreamAggregatedResources(sotw))
			for _, encoded := range sotw.heard {
				r := &discoveryv3.DiscoveryResponse{}
				require.NoError(t, proto.Unmarshal(encoded, r))
				require.True(t, asked[r.GetTypeUrl()], "an answer about %q, which nobody asked for", r.GetTypeUrl())
				require.NotEmpty(t, r.GetNonce())
				for _, body := range r.GetResources() {
					_, err := content(body)
					require.NoError(t, err)
				}
			}
			delta := deltaTalk{converse[discoveryv3.DeltaDiscoveryRequest, *discoveryv3.DeltaDiscoveryRequest](t.Context(), text)}
			asked = typesOf(delta.said)
			require.NoError(t, fuzzed(plan).DeltaAggregatedResources(delta))
			for _, encoded := range delta.heard {
				r := &discoveryv3.DeltaDiscoveryResponse{}
				require.NoError(t, proto.Unmarshal(encoded, r))
				require.True(t, asked[r.GetTypeUrl()], "an answer about %q, which nobody asked for", r.GetTypeUrl())
				require.NotEmpty(t, r.GetNonce())
			}
		}
	})
}

func typesOf[M interface{ GetTypeUrl() string }](said []M) map[string]bool {
	asked := map[string]bool{}
	for _, m := range said {
		asked[m.GetTypeUrl()] = true
	}
	return asked
}

// requests returns conversations of both forms. Their first nonces are those that the server makes.
func requests(f *testing.F) (seeds [][]byte) {
	f.Helper()
	add := func(said ...proto.Message) {
		var b bytes.Buffer
		for _, m := range said {
			_, err := protodelim.MarshalTo(&b, m)
			require.NoError(f, err)
		}
		seeds = append(seeds, b.Bytes())
	}
	type sotw = discoveryv3.DiscoveryRequest
	add(&sotw{TypeUrl: clusters, ResponseNonce: "2026-08-22 10:00"}, &sotw{TypeUrl: mark}, &sotw{TypeUrl: clusters, ResponseNonce: "1"},
		&sotw{TypeUrl: endpoints, ResourceNames: []string{"a", "*", "gone"}}, &sotw{TypeUrl: clusters}, &sotw{TypeUrl: "test/Unknown"})
	add(&sotw{TypeUrl: routes, ResourceNames: []string{"r"}}, &sotw{TypeUrl: routes, ResponseNonce: "1", ErrorDetail: refusal("no")},
		&sotw{TypeUrl: routes, ResponseNonce: "1"}, &sotw{TypeUrl: routes, ResponseNonce: "2", ResourceNames: []string{"*"}})
	type delta = discoveryv3.DeltaDiscoveryRequest
	add(&delta{TypeUrl: clusters, InitialResourceVersions: map[string]string{"a": "1", "gone": "1", "": ""}}, &delta{TypeUrl: mark},
		&delta{TypeUrl: clusters, ResponseNonce: "1"}, &delta{TypeUrl: clusters, ResourceNamesUnsubscribe: []string{"*", "a"}})
	add(&delta{TypeUrl: endpoints, ResourceNamesSubscribe: []string{"a", "*"}}, &delta{TypeUrl: endpoints, ResourceNamesUnsubscribe: []string{"*"}},
		&delta{TypeUrl: endpoints, ResponseNonce: "1", ErrorDetail: refusal("no")}, &delta{TypeUrl: endpoints, ResourceNamesSubscribe: []string{"a", "a", ""}})
	return seeds
}
