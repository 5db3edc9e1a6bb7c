package inspect_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/pgmesh/pgmesh/discovery/push"
	"github.com/pgmesh/pgmesh/discovery/serve"
	"github.com/pgmesh/pgmesh/discovery/servetest"
	"github.com/pgmesh/pgmesh/discovery/source"
	"github.com/pgmesh/pgmesh/internal/ads"
	"github.com/pgmesh/pgmesh/internal/testbench/poll"
	"github.com/pgmesh/pgmesh/kinds"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench is a running discovery, which is asked over HTTP, as people do.
type bench struct {
	t      *testing.T
	memory *source.Memory
	at     serve.Addresses
}

func start(t *testing.T) *bench {
	t.Helper()
	memory := source.NewMemory()
	b := startWith(t, memory, ads.Limits{})
	b.memory = memory
	return b
}

func startWith(t *testing.T, from source.Source, limits ads.Limits) *bench {
	t.Helper()
	return &bench{t: t, at: servetest.Start(t, serve.Sources{Embedded: []source.Source{from}}, limits)}
}

// startWithProxy starts a discovery that has the service web, and a proxy vm-1 that has accepted
// its clusters.
func startWithProxy(t *testing.T) (*bench, *proxy) {
	t.Helper()
	b := start(t)
	b.apply(web)
	p := b.connect(node("sidecar", "10.0.0.1", "vm-1"), push.ClusterType)
	p.accept(1)
	eventually(b, "/debug/proxies", func(all proxies) bool { return all[0].Current })
	return b, p
}

// apply puts resources, given as YAML, into the mesh.
func (b *bench) apply(yaml string) {
	b.t.Helper()
	documents, err := kinds.Parser{DefaultNamespace: "shop", Secrets: true}.Parse("test.yaml", []byte(yaml))
	require.NoError(b.t, err)
	var changes []kinds.Change
	for _, d := range documents {
		changes = append(changes, kinds.Change{Key: d.Resource.Key(), Resource: d.Resource})
	}
	b.memory.Apply(changes...)
}

// remove deletes a resource of the namespace shop.
func (b *bench) remove(kind, name string) {
	b.t.Helper()
	k, known := kinds.Lookup("networking.istio.io", kind)
	require.True(b.t, known)
	b.memory.Apply(kinds.Change{Key: kinds.Key{Kind: k, Namespace: "shop", Name: name}})
}

// get asks for a page.
func (b *bench) get(path string) (code int, text string) {
	b.t.Helper()
	request, err := http.NewRequestWithContext(b.t.Context(), http.MethodGet, "http://"+b.at.HTTP.String()+path, http.NoBody)
	require.NoError(b.t, err)
	response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
	require.NoError(b.t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(b.t, err)
	return response.StatusCode, string(body)
}

// refuses asks for pages that do not exist, and wants these words in the error.
func (b *bench) refuses(code int, words map[string]string) {
	b.t.Helper()
	for path, want := range words {
		got, text := b.get(path)
		require.Equal(b.t, code, got, path)
		require.Equal(b.t, want, text)
	}
}

// shown is a page, decoded.
func shown[T any](b *bench, path string) (page T) {
	b.t.Helper()
	code, text := b.get(path)
	require.Equal(b.t, http.StatusOK, code, text)
	require.NoError(b.t, json.Unmarshal([]byte(text), &page), text)
	return page
}

// eventually asks for a page until it meets a condition: discovery processes what a client sends a
// little later.
func eventually[T any](b *bench, path string, is func(T) bool) T {
	b.t.Helper()
	var page T
	poll.Eventually(b.t, func(context.Context) error {
		if page = shown[T](b, path); !is(page) {
			return fmt.Errorf("%s is %+v", path, page)
		}
		return nil
	})
	return page
}

// proxy is the client of an incremental stream.
type proxy struct {
	t      *testing.T
	stream discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesClient
	leave  func()
}

// node is the node of a machine of the namespace shop.
func node(role, ip, name string) *corev3.Node {
	return &corev3.Node{
		Id: role + "~" + ip + "~" + name + ".shop~shop.svc.cluster.local",
		UserAgentVersionType: &corev3.Node_UserAgentBuildVersion{
			UserAgentBuildVersion: &corev3.BuildVersion{Version: &typev3.SemanticVersion{MajorNumber: 1, MinorNumber: 40}},
		},
	}
}

// envoy turns a node into that of a real Envoy, which takes virtual hosts apart.
func envoy(n *corev3.Node) *corev3.Node {
	n.UserAgentName = "envoy"
	return n
}

// connect opens a stream and asks for these types. It has nothing yet.
func (b *bench) connect(n *corev3.Node, types ...string) *proxy {
	b.t.Helper()
	return b.connectAs("envoy", n, types...)
}

// connectAs connects through an agent of this name and version.
func (b *bench) connectAs(agent string, n *corev3.Node, types ...string) *proxy {
	b.t.Helper()
	connection, err := grpc.NewClient(b.at.XDS.String(), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithUserAgent(agent))
	require.NoError(b.t, err)
	b.t.Cleanup(func() { connection.Close() })
	ctx, cancel := context.WithCancel(b.t.Context())
	stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(connection).DeltaAggregatedResources(ctx)
	require.NoError(b.t, err)
	p := &proxy{t: b.t, stream: stream, leave: cancel}
	for _, typeURL := range types {
		p.send(&discoveryv3.DeltaDiscoveryRequest{Node: n, TypeUrl: typeURL})
	}
	return p
}

func (p *proxy) send(r *discoveryv3.DeltaDiscoveryRequest) {
	p.t.Helper()
	require.NoError(p.t, p.stream.Send(r))
}

func (p *proxy) receive() *discoveryv3.DeltaDiscoveryResponse {
	p.t.Helper()
	r, err := p.stream.Recv()
	require.NoError(p.t, err)
	return r
}

func (p *proxy) ack(r *discoveryv3.DeltaDiscoveryResponse) {
	p.t.Helper()
	p.send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: r.GetTypeUrl(), ResponseNonce: r.GetNonce()})
}

func (p *proxy) nack(r *discoveryv3.DeltaDiscoveryResponse, reason string) {
	p.t.Helper()
	p.send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: r.GetTypeUrl(), ResponseNonce: r.GetNonce(), ErrorDetail: &statuspb.Status{Code: 3, Message: reason}})
}

// accept accepts this many responses.
func (p *proxy) accept(responses int) {
	p.t.Helper()
	for range responses {
		p.ack(p.receive())
	}
}

const web = `
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: web}
spec:
  hosts: [web.shop]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{number: 80, name: http, protocol: HTTP}]
  endpoints:
  - {address: 10.1.0.1, locality: eu/a, weight: 3}
  - {address: 10.1.0.2, locality: eu/b}
`
