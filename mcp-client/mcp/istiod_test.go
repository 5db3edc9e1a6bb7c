package mcp_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"
	mcpapi "istio.io/api/mcp/v1alpha1"
	meshv1 "istio.io/api/mesh/v1alpha1"

	"github.com/pgmesh/pgmesh/internal/dial"
	listenflags "github.com/pgmesh/pgmesh/internal/listen"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/mcp"
)

const istiodCallsItself = `{"Component":"istiod","ID":"istiod-6b7f","Info":{"version":"1.31.0"}}`

// likeIstiod numbers its pushes and appends a UUID for nonces. It speaks the incremental form too,
// without versions.
func likeIstiod() manners {
	return manners{
		identifier: istiodCallsItself, admit: istiodNode, delta: istiodDelta,
		stamp: func(push, n int) (string, string) {
			version := fmt.Sprintf("2026-11-21T10:00:00Z/%d", push)
			return version, fmt.Sprintf("%s9b2f4c1e-0000-4000-8000-%012d", version, n)
		},
	}
}

// istiodNode matches a node as istiod parses it: type~address~id~domain.
func istiodNode(_ context.Context, node *corev3.Node) error {
	parts := strings.Split(node.GetId(), "~")
	if len(parts) != 4 || parts[0] != "sidecar" {
		return status.Errorf(codes.InvalidArgument, "missing parts in the service node %q", node.GetId())
	}
	if _, err := netip.ParseAddr(parts[1]); err != nil {
		return status.Errorf(codes.InvalidArgument, "invalid IP address %q", parts[1])
	}
	if node.GetMetadata().GetFields()["GENERATOR"].GetStringValue() != "api" {
		return status.Error(codes.InvalidArgument, "not a client of the api generator")
	}
	return nil
}

func istiodDelta(p *peer, g discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) error {
	for n := 0; ; n++ {
		r, err := g.Recv()
		if err != nil {
			return err
		}
		if r.GetResponseNonce() != "" {
			continue
		}
		p.mu.Lock()
		m := &discoveryv3.DeltaDiscoveryResponse{
			TypeUrl: r.GetTypeUrl(), Nonce: fmt.Sprint("delta-", n), ControlPlane: &corev3.ControlPlane{Identifier: istiodCallsItself},
		}
		for _, body := range p.lists[r.GetTypeUrl()] {
			name := &mcpapi.Resource{}
			_ = body.UnmarshalTo(name) // the mesh configuration has none
			m.Resources = append(m.Resources, &discoveryv3.Resource{Name: name.GetMetadata().GetName(), Resource: body})
		}
		p.mu.Unlock()
		if err := g.Send(m); err != nil {
			return err
		}
	}
}

func TestIstiodGetsStateOfTheWorld(t *testing.T) {
	t.Parallel()
	p := newPeer(t, likeIstiod())
	p.serve(serviceEntry.TypeURL(), bodies(t, entry("a", "1"))...)
	f := follow(t, p.addr)
	f.expect(0, "ServiceEntry default/a=1")
	st := f.client.Status()
	require.Equal(t, mcp.XDS, st.Protocol)
	require.JSONEq(t, istiodCallsItself, st.Server)
	require.Equal(t, p.addr, st.Target)

	// It ends each stream after half an hour. The client does not try the other form again for
	// that.
	for range 3 {
		p.replace(map[string][]*anypb.Any{serviceEntry.TypeURL(): bodies(t, entry("a", "1"), entry("again", "1"))})
		f.expect(0, "ServiceEntry default/again=1")
		p.replace(map[string][]*anypb.Any{serviceEntry.TypeURL(): bodies(t, entry("a", "1"))})
		f.expect(0, "ServiceEntry default/again gone")
	}
	sotw, delta := p.forms()
	require.Equal(t, 1, delta)
	require.Equal(t, 7, sotw)
}

func TestIstiodWithExplicitDelta(t *testing.T) {
	t.Parallel()
	p := newPeer(t, likeIstiod())
	p.serve(serviceEntry.TypeURL(), bodies(t, entry("a", "1"), entry("b", "1"))...)
	f := follow(t, p.addr, only(serviceEntry), func(cfg *mcp.Config) { cfg.Protocol = mcp.Delta })
	f.expect(0, "ServiceEntry default/a=1", "ServiceEntry default/b=1")
	require.Equal(t, mcp.Delta, f.client.Status().Protocol)
}

func TestIstiodRepeatsEverything(t *testing.T) {
	t.Parallel()
	p := newPeer(t, likeIstiod())
	p.serve(serviceEntry.TypeURL(), envelope(t, entry("a", "1"), "41"), envelope(t, entry("file", "1"), ""))
	f := follow(t, p.addr)
	f.expect(0, "ServiceEntry default/a=1", "ServiceEntry default/file=1")
	p.serve(virtualService.TypeURL(), envelope(t, route("r", "1"), "42"))
	f.expect(0, "VirtualService default/r=1")
	p.serve(serviceEntry.TypeURL(), envelope(t, entry("a", "1"), "41"), envelope(t, entry("file", "2"), ""))
	f.expect(0, "ServiceEntry default/file=2")
}

// Istiod up to 1.23 knows only the older version of each type, and sends nothing for the newer.
func TestOldIstiodVersions(t *testing.T) {
	t.Parallel()
	const old = "networking.istio.io/v1alpha3/"
	p := newPeer(t, likeIstiod())
	p.serve(old+"ServiceEntry", bodies(t, entry("a", "1"))...)
	p.serve(old+"VirtualService", bodies(t, route("r", "1"))...)
	f := follow(t, p.addr)
	f.expect(0, "ServiceEntry default/a=1", "VirtualService default/r=1")
	p.serve(old+"ServiceEntry", bodies(t, entry("a", "2"))...)
	f.expect(0, "ServiceEntry default/a=2")

	// After an upgrade the same resources come under the new name only: no change.
	p.replace(map[string][]*anypb.Any{
		serviceEntry.TypeURL(): bodies(t, entry("a", "2"), entry("new", "1")), virtualService.TypeURL(): bodies(t, route("r", "1")),
	})
	f.expect(0, "ServiceEntry default/new=1")
	p.serve(serviceEntry.TypeURL(), bodies(t, entry("new", "1"))...)
	f.expect(0, "ServiceEntry default/a gone")

	// And after a downgrade.
	p.replace(map[string][]*anypb.Any{old + "ServiceEntry": bodies(t, entry("new", "1")), old + "VirtualService": bodies(t, route("r", "2"))})
	f.expect(0, "VirtualService default/r=2")
}

// A server may send the same resource under two names.
func TestResourceUnderTwoNamesCountsOnce(t *testing.T) {
	t.Parallel()
	const old = "networking.istio.io/v1alpha3/ServiceEntry"
	p := newPeer(t, likeIstiod())
	p.serve(virtualService.TypeURL(), bodies(t, route("r", "1"))...)
	f := follow(t, p.addr)
	f.expect(0, "VirtualService default/r=1") // by now it was asked for service entries by all names
	p.serve(old, bodies(t, entry("a", "1"))...)
	f.expect(0, "ServiceEntry default/a=1")
	p.serve(serviceEntry.TypeURL(), bodies(t, entry("a", "1"), entry("b", "1"))...)
	f.expect(0, "ServiceEntry default/b=1")
	p.serve(serviceEntry.TypeURL(), bodies(t, entry("a", "2"), entry("b", "1"))...)
	f.expect(0, "ServiceEntry default/a=2") // and the old name's older content does not count
	p.serve(old)
	p.serve(serviceEntry.TypeURL(), bodies(t, entry("b", "1"))...)
	f.expect(0, "ServiceEntry default/a gone")

	// A resource that is removed under the name that counts but not under the other stays.
	p.serve(old, bodies(t, entry("b", "1"))...)
	p.serve(serviceEntry.TypeURL())
	p.serve(virtualService.TypeURL(), bodies(t, route("r", "2"))...)
	f.expect(0, "VirtualService default/r=2")
	p.serve(old, bodies(t, entry("b", "2"))...)
	f.expect(0, "ServiceEntry default/b=2")
	p.serve(old)
	f.expect(0, "ServiceEntry default/b gone")
}

func TestIstiodIsNotReady(t *testing.T) {
	t.Parallel()
	m, tries := likeIstiod(), 0
	m.delta = nil
	m.admit = func(context.Context, *corev3.Node) error {
		if tries++; tries < 4 {
			return status.Error(codes.Unavailable, "server is not ready to serve discovery information")
		}
		return nil
	}
	p := newPeer(t, m)
	p.serve(serviceEntry.TypeURL(), bodies(t, entry("a", "1"))...)
	f := follow(t, p.addr)
	f.expect(0, "ServiceEntry default/a=1")
	require.Equal(t, 3, f.client.Status().Reconnects)
}

// identity checks callers like istiod since 2026: the namespace in the caller's token must be the
// root namespace of the mesh, and the one in the node.
func identity(root string) func(context.Context, *corev3.Node) error {
	return func(ctx context.Context, node *corev3.Node) error {
		md, _ := metadata.FromIncomingContext(ctx)
		token, ok := strings.CutPrefix(strings.Join(md.Get("authorization"), ""), "Bearer ")
		namespace, err := base64.StdEncoding.DecodeString(token)
		if !ok || err != nil {
			return status.Error(codes.Unauthenticated, "authentication failure: no verified identity")
		}
		domain := strings.Split(node.GetId(), "~")[3]
		if string(namespace) != root || !strings.HasPrefix(domain, root+".") {
			return status.Errorf(codes.PermissionDenied, "namespace %s may not read configuration", namespace)
		}
		return istiodNode(ctx, node)
	}
}

func TestIstiodChecksIdentity(t *testing.T) {
	t.Parallel()
	m := likeIstiod()
	m.delta, m.admit = nil, identity("istio-system")
	p := newPeer(t, m)
	p.serve(serviceEntry.TypeURL(), bodies(t, entry("a", "1"))...)
	for name, c := range map[string]struct {
		namespace, token string
		want             codes.Code
	}{
		"nobody":                    {"istio-system", "", codes.Unauthenticated},
		"somebody else":             {"istio-system", "shop", codes.PermissionDenied},
		"somebody who says other":   {"shop", "istio-system", codes.PermissionDenied},
		"one of the root namespace": {"istio-system", "istio-system", codes.OK},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			options := dial.Options{
				Token: base64.StdEncoding.EncodeToString([]byte(c.token)), Plaintext: listenflags.Plaintext{Allowed: true},
			}
			connection, err := options.To(nil, p.addr)
			require.NoError(t, err)
			lost := make(chan error, 100)
			f := follow(t, p.addr, only(serviceEntry), func(cfg *mcp.Config) {
				cfg.Namespace, cfg.DialOptions = c.namespace, connection.DialOptions()
				cfg.Down = func(err error) { lost <- err }
			})
			if c.want == codes.OK {
				f.expect(0, "ServiceEntry default/a=1")
				return
			}
			require.Equal(t, c.want, status.Code(<-lost))
			require.Equal(t, c.want, status.Code(<-lost), "it goes on trying: who may call can change")
			require.False(t, f.client.Status().Synced)
		})
	}
}

func TestIstiodIgnoresRefusals(t *testing.T) {
	t.Parallel()
	p := newPeer(t, likeIstiod())
	p.serve(serviceEntry.TypeURL(), bodies(t, entry("a", "1"))...)
	f := follow(t, p.addr, only(serviceEntry))
	f.expect(0, "ServiceEntry default/a=1")
	p.serve(serviceEntry.TypeURL(), broken(t, "default/a"), broken(t, "shop/junk/name"), envelope(t, entry("b", "1"), ""))
	f.expect(0, "ServiceEntry default/b=1")
	nack := <-p.nacks
	require.Contains(t, nack.GetErrorDetail().GetMessage(), "default/a")
	require.Contains(t, nack.GetErrorDetail().GetMessage(), "shop/junk/name")
	p.serve(serviceEntry.TypeURL(), bodies(t, entry("a", "2"))...)
	f.expect(0, "ServiceEntry default/a=2", "ServiceEntry default/b gone")
}

// The kinds of the Gateway API have no messages, so they arrive as a Struct.
func TestGatewayAPIArrivesAsStruct(t *testing.T) {
	t.Parallel()
	httpRoute := kind("HTTPRoute")
	spec, err := structpb.NewStruct(map[string]any{"hostnames": []any{"shop.example"}})
	require.NoError(t, err)
	p := newPeer(t, likeIstiod())
	r := &kinds.Resource{Kind: httpRoute, Namespace: "shop", Name: "r", Spec: kinds.SpecOf(spec), CreateTime: time.Unix(1700000000, 0)}
	p.serve(httpRoute.TypeURL(), bodies(t, r)...)
	f := follow(t, p.addr, only(httpRoute))
	got := f.expect(0, "HTTPRoute shop/r="+fmt.Sprint(spec)).Changes[0].Resource
	require.True(t, r.CreateTime.Equal(got.CreateTime))
}

// A Struct is accepted in place of a kind's message.
func TestStructInPlaceOfMessage(t *testing.T) {
	t.Parallel()
	spec, err := structpb.NewStruct(map[string]any{"hosts": []any{"shop.example"}})
	require.NoError(t, err)
	p := newPeer(t, likeIstiod())
	body, err := (&kinds.Resource{Kind: serviceEntry, Namespace: "shop", Name: "s", Spec: kinds.SpecOf(spec)}).Any("")
	require.NoError(t, err)
	p.serve(serviceEntry.TypeURL(), body)
	f := follow(t, p.addr, only(serviceEntry))
	f.expect(0, "ServiceEntry shop/s=shop.example")
}

func TestEveryNameForm(t *testing.T) {
	t.Parallel()
	p := newPeer(t, likeIstiod())
	named := func(name, host string) *anypb.Any {
		return envelope(t, &kinds.Resource{Kind: serviceEntry, Name: name, Spec: entry("", host).Spec}, "")
	}
	p.serve(serviceEntry.TypeURL(), named("bare", "1"), named("/slash", "1"), named("ns/name", "1"))
	f := follow(t, p.addr, only(serviceEntry))
	f.expect(0, "ServiceEntry bare=1", "ServiceEntry slash=1", "ServiceEntry ns/name=1")
	p.serve(serviceEntry.TypeURL(), named("/bare", "1"), named("slash", "2"))
	f.expect(0, "ServiceEntry slash=2", "ServiceEntry ns/name gone")
}

func TestIstiodMeshConfigHasNoEnvelope(t *testing.T) {
	t.Parallel()
	mesh := &meshv1.MeshConfig{RootNamespace: "istio-system"}
	bare, err := anypb.New(mesh)
	require.NoError(t, err)
	p := newPeer(t, likeIstiod())
	p.lists[serviceEntry.TypeURL()] = bodies(t, entry("a", "1"))
	p.serve(meshConfig.TypeURL(), bare)
	f := follow(t, p.addr, only(meshConfig, serviceEntry))
	f.expect(0, "MeshConfig istio-system/meshconfig="+fmt.Sprint(mesh), "ServiceEntry default/a=1")
}
