package serve_test

import (
	"context"
	"fmt"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/stretchr/testify/require"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/anypb"
	mcp "istio.io/api/mcp/v1alpha1"
)

// xds is a stream of one of the two forms, on which a test says what it likes.
type xds struct {
	t      *testing.T
	send   func(said) error
	recv   func() (*heard, error)
	probes int
}

// said is a request.
type said struct {
	typeURL, nonce, refusal string
	held                    map[string]string // delta
	anonymous               bool              // no node
}

// heard is a response.
type heard struct {
	typeURL, revision, nonce string
	bodies                   []*anypb.Any
	names, versions          []string // delta, of the bodies
	removed                  []string // delta
}

const xdsNode = "sidecar~10.0.0.2~reader-1.default~default.svc.cluster.local"

func (s said) node() *corev3.Node {
	if s.anonymous {
		return nil
	}
	return &corev3.Node{Id: xdsNode}
}

func (s said) failure() *rpcstatus.Status {
	if s.refusal == "" {
		return nil
	}
	return &rpcstatus.Status{Code: int32(codes.InvalidArgument), Message: s.refusal}
}

// eachForm runs a test with a way to open streams of each form.
func eachForm(t *testing.T, test func(t *testing.T, open func(address string) *xds)) {
	t.Helper()
	t.Run("delta", func(t *testing.T) {
		t.Parallel()
		test(t, func(address string) *xds { return openDelta(t, address) })
	})
	t.Run("state of the world", func(t *testing.T) {
		t.Parallel()
		test(t, func(address string) *xds { return openSotW(t, address) })
	})
}

func adsClient(t *testing.T, address string) (context.Context, discoveryv3.AggregatedDiscoveryServiceClient) {
	t.Helper()
	conn, err := grpc.NewClient(address, plaintext...)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(func() { cancel(); require.NoError(t, conn.Close()) })
	return ctx, discoveryv3.NewAggregatedDiscoveryServiceClient(conn)
}

func openSotW(t *testing.T, address string) *xds {
	t.Helper()
	ctx, client := adsClient(t, address)
	stream, err := client.StreamAggregatedResources(ctx)
	require.NoError(t, err)
	return &xds{
		t: t,
		send: func(s said) error {
			return stream.Send(&discoveryv3.DiscoveryRequest{Node: s.node(), TypeUrl: s.typeURL, ResponseNonce: s.nonce, ErrorDetail: s.failure()})
		},
		recv: func() (*heard, error) {
			m, err := stream.Recv()
			return &heard{typeURL: m.GetTypeUrl(), revision: m.GetVersionInfo(), nonce: m.GetNonce(), bodies: m.GetResources()}, err
		},
	}
}

func openDelta(t *testing.T, address string) *xds {
	t.Helper()
	ctx, client := adsClient(t, address)
	stream, err := client.DeltaAggregatedResources(ctx)
	require.NoError(t, err)
	return &xds{
		t: t,
		send: func(s said) error {
			return stream.Send(&discoveryv3.DeltaDiscoveryRequest{
				Node: s.node(), TypeUrl: s.typeURL, ResponseNonce: s.nonce, ErrorDetail: s.failure(), InitialResourceVersions: s.held,
			})
		},
		recv: func() (*heard, error) {
			m, err := stream.Recv()
			h := &heard{typeURL: m.GetTypeUrl(), revision: m.GetSystemVersionInfo(), nonce: m.GetNonce(), removed: m.GetRemovedResources()}
			for _, r := range m.GetResources() {
				h.bodies, h.names, h.versions = append(h.bodies, r.GetResource()), append(h.names, r.GetName()), append(h.versions, r.GetVersion())
			}
			return h, err
		},
	}
}

func (x *xds) ask(typeURL string) { x.say(said{typeURL: typeURL}) }

func (x *xds) say(s said) {
	x.t.Helper()
	require.NoError(x.t, x.send(s))
}

func (x *xds) ack(h *heard) { x.say(said{typeURL: h.typeURL, nonce: h.nonce}) }

// next returns the next response, which must be of this type.
func (x *xds) next(typeURL string) *heard {
	x.t.Helper()
	h, err := x.recv()
	require.NoError(x.t, err)
	require.Equal(x.t, typeURL, h.typeURL)
	return h
}

// quiet makes sure that all that was said was handled, and that there is nothing to say to it:
// types are answered in the order in which they were first asked for.
func (x *xds) quiet() {
	x.t.Helper()
	x.probes++
	typeURL := fmt.Sprintf("probe.example/v1/Probe%d", x.probes)
	x.ask(typeURL)
	x.ack(x.next(typeURL))
}

// versions are those in the envelopes of a response, by name.
func versions(t *testing.T, h *heard) map[string]string {
	t.Helper()
	all := map[string]string{}
	for n, body := range h.bodies {
		r := &mcp.Resource{}
		require.NoError(t, body.UnmarshalTo(r))
		all[r.GetMetadata().GetName()] = r.GetMetadata().GetVersion()
		if h.names != nil {
			require.Equal(t, []string{r.GetMetadata().GetName(), r.GetMetadata().GetVersion()}, []string{h.names[n], h.versions[n]})
		}
	}
	return all
}
