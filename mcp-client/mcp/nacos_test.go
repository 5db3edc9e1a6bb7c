package mcp_test

import (
	"fmt"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/timestamppb"
	mcpapi "istio.io/api/mcp/v1alpha1"

	"github.com/pgmesh/pgmesh/mcp-client/mcp"
)

// nacosEntries is the only type of which Nacos has resources.
const nacosEntries = "networking.istio.io/v1alpha3/ServiceEntry"

// likeNacos makes nonces of 32 hex digits, never answers for the mesh configuration, and accepts
// incremental streams without sending anything on them.
func likeNacos() manners {
	return manners{
		ignores: []string{meshConfig.TypeURL()},
		stamp:   func(push, n int) (string, string) { return fmt.Sprint(push), fmt.Sprintf("%032x", push*1000+n) },
		delta: func(_ *peer, g discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) error {
			for {
				if _, err := g.Recv(); err != nil {
					return err
				}
			}
		},
	}
}

// service is a service as Nacos describes it.
func service(t *testing.T, name, host string, counter int) *anypb.Any {
	t.Helper()
	spec, err := anypb.New(entry("", host).Spec.Message())
	require.NoError(t, err)
	body, err := anypb.New(&mcpapi.Resource{
		Metadata: &mcpapi.Metadata{
			Name: "public/" + name, Version: fmt.Sprint(counter), CreateTime: &timestamppb.Timestamp{Seconds: 1700000000},
			Labels: map[string]string{"registryType": "nacos"}, Annotations: map[string]string{"virtual": "1"},
		},
		Body: spec,
	})
	require.NoError(t, err)
	return body
}

func brief(cfg *mcp.Config) { cfg.AnswerTimeout = 300 * time.Millisecond }

func sotw(cfg *mcp.Config) { cfg.Protocol = mcp.XDS }

func TestNacosIsSilentOnDelta(t *testing.T) {
	t.Parallel()
	p := newPeer(t, likeNacos())
	p.serve(nacosEntries, service(t, "shop", "1", 1))
	f := follow(t, p.addr, brief, func(cfg *mcp.Config) { cfg.Kinds = append(cfg.Kinds, meshConfig) })
	b := f.expect(0, "ServiceEntry public/shop=1")
	require.Equal(t, mcp.XDS, f.client.Status().Protocol)
	require.Equal(t, time.Unix(1700000000, 0).UTC(), b.Changes[0].Resource.CreateTime)
	require.Equal(t, map[string]string{"registryType": "nacos"}, b.Changes[0].Resource.Labels)
	require.Empty(t, f.client.Status().Unanswered, "nobody waits for the mesh configuration")

	// After it was down, the client tries the incremental form once more, but only once.
	p.replace(map[string][]*anypb.Any{nacosEntries: {service(t, "shop", "2", 2)}})
	f.expect(0, "ServiceEntry public/shop=2")
	_, delta := p.forms()
	require.Equal(t, 1, delta)
}

// Its incremental responses are useless: their resources have neither names nor envelopes.
func TestNacosDeltaIsAbandoned(t *testing.T) {
	t.Parallel()
	m := likeNacos()
	m.delta = func(_ *peer, g discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) error {
		bare, err := anypb.New(entry("", "1").Spec.Message())
		if err != nil {
			return err
		}
		if err := g.Send(&discoveryv3.DeltaDiscoveryResponse{
			TypeUrl: nacosEntries, Nonce: "0123456789abcdef0123456789abcdef", Resources: []*discoveryv3.Resource{{Resource: bare}},
		}); err != nil {
			return err
		}
		<-g.Context().Done()
		return nil
	}
	p := newPeer(t, m)
	p.serve(nacosEntries, service(t, "shop", "1", 1))
	f := follow(t, p.addr)
	f.expect(0, "ServiceEntry public/shop=1")
	require.Equal(t, mcp.XDS, f.client.Status().Protocol)
}

// Nacos has one version per service, which changes of weights and labels do not change
// (nacos#8742).
func TestContentChangesWithoutVersion(t *testing.T) {
	t.Parallel()
	p := newPeer(t, likeNacos())
	p.serve(nacosEntries, service(t, "shop", "1", 7))
	f := follow(t, p.addr, only(serviceEntry), sotw)
	f.expect(0, "ServiceEntry public/shop=1")
	p.serve(nacosEntries, service(t, "shop", "2", 7))
	f.expect(0, "ServiceEntry public/shop=2")
	p.serve(nacosEntries, service(t, "shop", "2", 8)) // and counts without a change
	p.replace(map[string][]*anypb.Any{nacosEntries: {service(t, "shop", "3", 7)}})
	f.expect(0, "ServiceEntry public/shop=3")
}

func TestNacosDoesNotRepeatRefusedResponse(t *testing.T) {
	t.Parallel()
	p := newPeer(t, likeNacos())
	p.serve(nacosEntries, service(t, "shop", "1", 1))
	f := follow(t, p.addr, only(serviceEntry), sotw)
	f.expect(0, "ServiceEntry public/shop=1")
	p.serve(nacosEntries, broken(t, "public/shop"), service(t, "cart", "1", 1))
	f.expect(0, "ServiceEntry public/cart=1")
	require.Regexp(t, `^[0-9a-f]{32}$`, (<-p.nacks).GetResponseNonce())
	p.serve(nacosEntries, service(t, "shop", "2", 2), service(t, "cart", "1", 1))
	f.expect(0, "ServiceEntry public/shop=2")
}

// A server may leave the other names of a kind unanswered. They are given up.
func TestUnansweredOtherNames(t *testing.T) {
	t.Parallel()
	m := likeNacos()
	m.delta, m.ignores = nil, serviceEntry.TypeURLs()[1:]
	p := newPeer(t, m)
	f := follow(t, p.addr, only(serviceEntry), brief)
	f.expect(0)
	p.serve(serviceEntry.TypeURL(), service(t, "shop", "1", 1))
	f.expect(0, "ServiceEntry public/shop=1")
}

// A kind that is never answered under any name holds back the rest, which is reported.
func TestUnansweredKind(t *testing.T) {
	t.Parallel()
	m := likeNacos()
	m.delta, m.ignores = nil, virtualService.TypeURLs()
	p := newPeer(t, m)
	p.serve(serviceEntry.TypeURL(), service(t, "shop", "1", 1))
	f := follow(t, p.addr, brief)
	require.Eventually(t, func() bool { return len(f.client.Status().Unanswered) > 0 }, limit, time.Millisecond)
	require.Equal(t, []string{virtualService.TypeURL()}, f.client.Status().Unanswered)
	require.False(t, f.client.Status().Synced)
	p.mu.Lock()
	p.manners.ignores = nil
	p.push()
	p.mu.Unlock()
	f.expect(0, "ServiceEntry public/shop=1")
	require.Eventually(t, func() bool { return len(f.client.Status().Unanswered) == 0 }, limit, time.Millisecond)
}
