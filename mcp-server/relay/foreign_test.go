package relay_test

import (
	"context"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/anypb"
	mcpapi "istio.io/api/mcp/v1alpha1"

	"github.com/pgmesh/pgmesh/internal/ads"
	"github.com/pgmesh/pgmesh/internal/ads/served"
	mcpv1 "github.com/pgmesh/pgmesh/proto/pgmesh/mcp/v1"
)

// foreign is another make of server: it sends no versions, marks or standing.
type foreign struct {
	*node
	topic served.Topic
}

func newForeign(t *testing.T) *foreign {
	f := &foreign{node: listen(t)}
	f.kill()
	f.start()
	return f
}

func (f *foreign) start() {
	f.startWith(ads.NewServer(ads.Config{
		Open:       func(context.Context, *corev3.Node, bool) (*served.Subscriber, error) { return f.topic.Subscribe(), nil },
		Identifier: `{"Component":"istiod"}`,
	}).Register)
}

func (f *foreign) tell(entries ...*served.Resource) {
	f.topic.Publish(&served.Snapshot{Sets: map[string]*served.Set{serviceEntry.TypeURL(): served.NewSet(entries...)}})
}

// unversioned is what a server without versions sends.
func unversioned(t *testing.T, name, host string) *served.Resource {
	t.Helper()
	r := entry(t, name, host)
	envelope := &mcpapi.Resource{}
	require.NoError(t, r.Body.UnmarshalTo(envelope))
	envelope.Metadata.Version = ""
	body, err := anypb.New(envelope)
	require.NoError(t, err)
	return &served.Resource{Name: r.Name, Version: host, Body: body}
}

// For a server without revisions the relay counts the changes itself, and gives clients versions.
func TestAnUpstreamOfAnotherMake(t *testing.T) {
	t.Parallel()
	first := newForeign(t)
	second := follow(t, nil, first.node)
	a, b := unversioned(t, "a", "a.example"), unversioned(t, "b", "b.example")
	first.tell(a, b)
	snap := second.at(1, true)
	set := snap.Sets[serviceEntry.TypeURL()]
	require.Equal(t, 2, set.Len())
	served := &mcpapi.Resource{}
	require.NoError(t, set.Get("default/a").Body.UnmarshalTo(served))
	require.NotEmpty(t, served.GetMetadata().GetVersion())
	require.Equal(t, set.Get("default/a").Version, served.GetMetadata().GetVersion())
	require.Empty(t, second.standing(snap).GetMesh())
	mark := snap.Sets[mcpv1.BatchTypeURL].Get(mcpv1.BatchName).Version
	require.Equal(t, "1."+second.publisher.ID(), mark)

	first.tell(unversioned(t, "a", "new.example"), b)
	after := second.at(2, true).Sets[serviceEntry.TypeURL()]
	require.NotEqual(t, set.Get("default/a").Version, after.Get("default/a").Version)
	require.Same(t, set.Get("default/b"), after.Get("default/b"))

	first.kill()
	second.at(2, false)
	first.start()
	back := second.at(3, true).Sets[serviceEntry.TypeURL()]
	require.Same(t, after, back, "nothing is sent again")
}
