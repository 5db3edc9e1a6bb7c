package serve

import (
	"context"
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/discovery/configstore"
	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/push"
	"github.com/pgmesh/pgmesh/kinds"
)

// pushed is what a push was given.
type pushed struct {
	revision int64
	changes  []push.Change
}

func TestABatchIsPushedAtOnceAndThoseThatComeMeanwhileTogether(t *testing.T) {
	t.Parallel()
	begun, goOn := make(chan pushed), make(chan struct{})
	f := newFollower(func(_ *mesh.Mesh, revision int64, changes []push.Change) {
		begun <- pushed{revision, changes}
		<-goOn
	}, prometheus.NewRegistry())
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- f.run(ctx) }()

	f.take(batchOf(t, 1, "a", "10.0.0.1"))
	require.Equal(t, int64(1), (<-begun).revision, "nothing was under way")

	f.take(batchOf(t, 2, "a", "10.0.0.2"))
	f.take(batchOf(t, 3, "b", "10.0.0.3"))
	f.take(batchOf(t, 4, "a", "10.0.0.4"))
	goOn <- struct{}{}
	together := <-begun
	require.Equal(t, int64(4), together.revision)
	require.Len(t, together.changes, 2, "each resource once")
	require.Equal(t, "10.0.0.1", address(together.changes[0].Before), "as proxies have it")
	require.Equal(t, "10.0.0.4", address(together.changes[0].After), "the last counts")
	require.Nil(t, together.changes[1].Before)

	goOn <- struct{}{}
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
}

// Each batch wakes the follower, and one may come between its being woken and its taking what waits: then it is woken for nothing.
func TestNothingIsPushedWhereNothingWaits(t *testing.T) {
	t.Parallel()
	begun := make(chan int64, 1000)
	f := newFollower(func(_ *mesh.Mesh, revision int64, _ []push.Change) { begun <- revision }, prometheus.NewRegistry())
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- f.run(ctx) }()
	last := int64(0)
	for revision := range int64(500) {
		f.take(batchOf(t, revision+1, "a", "10.0.0.1"))
	}
	for last < 500 {
		next := <-begun
		require.Greater(t, next, last)
		last = next
	}
	f.wake <- struct{}{}
	f.take(configstore.Batch{Revision: 501})
	require.Equal(t, int64(501), <-begun, "which changes nothing, and is a revision all the same")
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	require.Empty(t, begun)
}

func batchOf(t *testing.T, revision int64, name, address string) configstore.Batch {
	t.Helper()
	documents, err := kinds.Parse("test.yaml", fmt.Appendf(nil,
		"apiVersion: networking.istio.io/v1\nkind: WorkloadEntry\nmetadata: {name: %s, namespace: shop}\nspec: {address: %s}\n", name, address))
	require.NoError(t, err)
	r := documents[0].Resource
	return configstore.Batch{Revision: revision, Changes: []configstore.Change{{Key: r.Key(), Resource: r}}}
}

func address(r *kinds.Resource) string {
	return r.Spec.Message().(interface{ GetAddress() string }).GetAddress()
}
