package kinds_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	mcp "istio.io/api/mcp/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/kinds"
)

func TestReceivedSpecIsDecodedOnce(t *testing.T) {
	t.Parallel()
	sent := &networking.VirtualService{Hosts: []string{"a"}, Http: []*networking.HTTPRoute{{Name: "r"}}}
	body, err := anypb.New(sent)
	require.NoError(t, err)
	r, err := kinds.FromMCP(kind(t, "vs"), "shop/a", &mcp.Resource{Body: body})
	require.NoError(t, err)

	var asking sync.WaitGroup
	got := make([]proto.Message, 8)
	for i := range got {
		asking.Go(func() { got[i] = r.Spec.Message() })
	}
	asking.Wait()
	for _, m := range got {
		require.Same(t, got[0], m)
	}
	require.True(t, proto.Equal(sent, got[0]))
	require.True(t, kinds.SpecOf(sent).Equal(r.Spec))
	require.False(t, kinds.SpecOf(&networking.VirtualService{}).Equal(r.Spec))
}

func TestBrokenSpecIsRefusedOnReceipt(t *testing.T) {
	t.Parallel()
	cut, err := proto.Marshal(&networking.VirtualService{Hosts: []string{"a", "b"}})
	require.NoError(t, err)
	for _, value := range [][]byte{cut[:len(cut)-1], {0x0a, 1, 0xff}} {
		body := &anypb.Any{TypeUrl: "type.googleapis.com/istio.networking.v1alpha3.VirtualService", Value: value}
		_, err := kinds.FromMCP(kind(t, "vs"), "shop/a", &mcp.Resource{Body: body})
		require.ErrorContains(t, err, "decode VirtualService shop/a from MCP: ")
		require.ErrorContains(t, err, proto.Unmarshal(value, &networking.VirtualService{}).Error())
	}
}

func TestNilSpecHasNoMessage(t *testing.T) {
	t.Parallel()
	require.Nil(t, (&kinds.Resource{}).Spec.Message())
}
