package serve_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"
	mcp "istio.io/api/mcp/v1alpha1"
	meshconfig "istio.io/api/mesh/v1alpha1"
)

const meshConfigURL = "core/v1alpha1/MeshConfig"

// What istiod asks for, in its order: since 1.30, and from 1.13 to 1.23.
var (
	newIstiod = []string{
		meshConfigURL,
		"security.istio.io/v1/AuthorizationPolicy",
		"networking.istio.io/v1/DestinationRule",
		"networking.istio.io/v1alpha3/EnvoyFilter",
		"networking.istio.io/v1/Gateway",
		"security.istio.io/v1/PeerAuthentication",
		"networking.istio.io/v1beta1/ProxyConfig",
		"security.istio.io/v1/RequestAuthentication",
		"networking.istio.io/v1/ServiceEntry",
		"networking.istio.io/v1/Sidecar",
		"telemetry.istio.io/v1/Telemetry",
		"extensions.istio.io/v1alpha1/TrafficExtension",
		"networking.istio.io/v1/VirtualService",
		"extensions.istio.io/v1alpha1/WasmPlugin",
		"networking.istio.io/v1/WorkloadEntry",
		"networking.istio.io/v1/WorkloadGroup",
	}
	oldIstiod = []string{
		meshConfigURL,
		"security.istio.io/v1beta1/AuthorizationPolicy",
		"networking.istio.io/v1alpha3/DestinationRule",
		"networking.istio.io/v1alpha3/EnvoyFilter",
		"networking.istio.io/v1alpha3/Gateway",
		"security.istio.io/v1beta1/PeerAuthentication",
		"networking.istio.io/v1beta1/ProxyConfig",
		"security.istio.io/v1beta1/RequestAuthentication",
		"networking.istio.io/v1alpha3/ServiceEntry",
		"networking.istio.io/v1alpha3/Sidecar",
		"telemetry.istio.io/v1alpha1/Telemetry",
		"networking.istio.io/v1alpha3/VirtualService",
		"extensions.istio.io/v1alpha1/WasmPlugin",
		"networking.istio.io/v1alpha3/WorkloadEntry",
		"networking.istio.io/v1alpha3/WorkloadGroup",
	}
)

// istiod imitates istiod as an MCP client, oddities included. It outlives its streams.
type istiod struct {
	t      *testing.T
	asks   []string
	stream discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesClient
	hangUp context.CancelFunc

	answers map[string]int // responses by type URL, on this stream
	config  map[string]map[string]*mcp.Metadata
	bodies  map[string]*anypb.Any // by the name of the resource
	mesh    *meshconfig.MeshConfig
	done    []string // what was done to its configuration: "add default/a", "update default/a", "delete default/a"
	broken  []string // what it could not decode
}

func newIstiodOf(t *testing.T, asks []string) *istiod {
	t.Helper()
	return &istiod{t: t, asks: asks, config: map[string]map[string]*mcp.Metadata{}, bodies: map[string]*anypb.Any{}}
}

// dial opens a stream, and sends the same first requests on each: without names, without a version,
// and with a clock for a nonce.
func (i *istiod) dial(address string) {
	i.t.Helper()
	i.leave()
	conn, err := grpc.NewClient(address, plaintext...)
	require.NoError(i.t, err)
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	i.hangUp = func() { cancel(); _ = conn.Close() }
	i.t.Cleanup(i.hangUp)
	i.stream, err = discoveryv3.NewAggregatedDiscoveryServiceClient(conn).StreamAggregatedResources(ctx)
	require.NoError(i.t, err)
	i.answers = map[string]int{}
	for _, typeURL := range i.asks {
		i.send(&discoveryv3.DiscoveryRequest{Node: i.node(), TypeUrl: typeURL, ResponseNonce: time.Now().String()})
	}
}

// leave ends the stream. What it has, istiod keeps.
func (i *istiod) leave() {
	if i.hangUp != nil {
		i.hangUp()
	}
}

func (i *istiod) node() *corev3.Node {
	i.t.Helper()
	metadata, err := structpb.NewStruct(map[string]any{"GENERATOR": "api", "ISTIO_VERSION": "65536.65536.65536"})
	require.NoError(i.t, err)
	return &corev3.Node{Id: "sidecar~10.0.0.1~istiod-1.istio-system~istio-system.svc.cluster.local", Metadata: metadata}
}

func (i *istiod) send(r *discoveryv3.DiscoveryRequest) {
	i.t.Helper()
	if err := i.stream.Send(r); !errors.Is(err, io.EOF) { // which only says that the stream has ended: why, is received
		require.NoError(i.t, err)
	}
}

// sync receives until each type was answered on this stream. Only then does istiod serve its
// proxies.
func (i *istiod) sync(address string) {
	i.t.Helper()
	i.dial(address)
	for len(i.answers) < len(i.asks) {
		i.receive()
	}
}

// until receives until something was done.
func (i *istiod) until(done string) {
	i.t.Helper()
	for !slices.Contains(i.done, done) {
		i.receive()
	}
}

// receive takes one response and applies it.
func (i *istiod) receive() *discoveryv3.DiscoveryResponse {
	i.t.Helper()
	r, err := i.stream.Recv()
	require.NoError(i.t, err)
	i.answers[r.GetTypeUrl()]++
	switch {
	case r.GetTypeUrl() == meshConfigURL && len(r.GetResources()) > 0:
		i.mesh = &meshconfig.MeshConfig{}
		require.NoError(i.t, r.GetResources()[0].UnmarshalTo(i.mesh))
		return r // and no answer
	case slices.Contains(i.asks, r.GetTypeUrl()):
		i.apply(r.GetTypeUrl(), r.GetResources())
	}
	i.send(&discoveryv3.DiscoveryRequest{Node: i.node(), TypeUrl: r.GetTypeUrl(), VersionInfo: r.GetVersionInfo(), ResponseNonce: r.GetNonce()})
	return r
}

// apply replaces everything of a type by a response: what is absent, or cannot be decoded, is
// deleted.
func (i *istiod) apply(typeURL string, resources []*anypb.Any) {
	now := map[string]*mcp.Metadata{}
	for _, packed := range resources {
		r := &mcp.Resource{}
		if packed.UnmarshalTo(r) != nil || strings.Count(r.GetMetadata().GetName(), "/") != 1 || !known(r.GetBody()) {
			i.broken = append(i.broken, r.GetMetadata().GetName())
			continue
		}
		name := r.GetMetadata().GetName()
		now[name] = r.GetMetadata()
		switch had := i.config[typeURL][name]; {
		case had == nil:
			i.done = append(i.done, "add "+name)
		case had.GetVersion() == "" || had.GetVersion() != r.GetMetadata().GetVersion():
			i.done = append(i.done, "update "+name)
		default:
			continue // whatever it says
		}
		i.bodies[name] = r.GetBody()
	}
	for name := range i.config[typeURL] {
		if now[name] == nil {
			i.done = append(i.done, "delete "+name)
			delete(i.bodies, name)
		}
	}
	i.config[typeURL] = now
}

// known tells whether a body decodes as the message that it says it is.
func known(body *anypb.Any) bool {
	_, err := body.UnmarshalNew()
	return err == nil
}
