package serve

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/pgmesh/pgmesh/discovery/configstore"
	"github.com/pgmesh/pgmesh/discovery/identity/jwks"
	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/identity/webkeys"
	"github.com/pgmesh/pgmesh/internal/places"
	"github.com/pgmesh/pgmesh/kinds"
)

// pushed is what a push was given.
type pushed struct {
	revision int64
	changes  []configstore.Edit
}

func TestABatchIsPushedAtOnceAndThoseThatComeMeanwhileTogether(t *testing.T) {
	t.Parallel()
	begun, goOn := make(chan pushed), make(chan struct{})
	f := newFollower(func(m *mesh.Mesh, step configstore.Step) {
		begun <- pushed{m.Revision, step.Edits(mesh.WorkloadEntry)}
		<-goOn
	}, prometheus.NewRegistry())
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- f.run(ctx) }()

	inForce := make(chan int64, 10)
	take := func(revision int64, name, address string) {
		b := batchOf(t, revision, name, address)
		b.InForce = []func(){func() { inForce <- revision }}
		f.take(b)
	}
	take(1, "a", "10.0.0.1")
	require.Equal(t, int64(1), (<-begun).revision, "nothing was under way")

	take(2, "a", "10.0.0.2")
	take(3, "b", "10.0.0.3")
	take(4, "a", "10.0.0.4")
	require.Empty(t, inForce)
	goOn <- struct{}{}
	require.Equal(t, int64(1), <-inForce)
	together := <-begun
	require.Empty(t, inForce)
	require.Equal(t, int64(4), together.revision)
	require.Len(t, together.changes, 2, "each resource once")
	require.Equal(t, "10.0.0.1", address(together.changes[0].Before), "as proxies have it")
	require.Equal(t, "10.0.0.4", address(together.changes[0].After), "the last counts")
	require.Nil(t, together.changes[1].Before)

	goOn <- struct{}{}
	for _, revision := range []int64{2, 3, 4} {
		require.Equal(t, revision, <-inForce)
	}
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
}

// Each batch wakes the follower. One may come after it was woken and before it takes what waits:
// then the next wake-up is for nothing.
func TestNothingIsPushedWhereNothingWaits(t *testing.T) {
	t.Parallel()
	begun := make(chan int64, 1000)
	f := newFollower(func(m *mesh.Mesh, _ configstore.Step) { begun <- m.Revision }, prometheus.NewRegistry())
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
	f.take(kinds.Batch{Revision: 501})
	require.Equal(t, int64(501), <-begun, "which changes nothing, and is a revision all the same")
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	require.Empty(t, begun)
}

func batchOf(t *testing.T, revision int64, name, address string) kinds.Batch {
	t.Helper()
	documents, err := kinds.Parse("test.yaml", fmt.Appendf(nil,
		"apiVersion: networking.istio.io/v1\nkind: WorkloadEntry\nmetadata: {name: %s, namespace: shop}\nspec: {address: %s}\n", name, address))
	require.NoError(t, err)
	r := documents[0].Resource
	return kinds.Batch{Revision: revision, Changes: []kinds.Change{{Key: r.Key(), Resource: r}}}
}

func address(r *kinds.Resource) string {
	return r.Spec.Message().(interface{ GetAddress() string }).GetAddress()
}

// TestKeysThatComeArePushed has keys that come after the mesh. The first push waits for those that
// come at once.
func TestKeysThatComeArePushed(t *testing.T) {
	t.Parallel()
	open := make(chan struct{})
	issuer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/late" {
			<-open
		}
		fmt.Fprint(w, `{"keys":[{"k":"b25l","kty":"oct"}]}`)
	}))
	t.Cleanup(issuer.Close)
	keys, err := jwks.New(jwks.Options{Options: places.Options{Allowed: []string{"127.0.0.1"}}}, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	require.NoError(t, err)
	meshes := make(chan *mesh.Mesh)
	f := newFollower(func(m *mesh.Mesh, _ configstore.Step) { meshes <- m }, prometheus.NewRegistry())
	f.keys = keys
	ctx, cancel := context.WithCancel(t.Context())
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return f.run(ctx) })
	g.Go(func() error { return keys.Run(ctx) })
	proxy := &mesh.Proxy{Type: mesh.Sidecar, Addresses: []string{"10.0.0.1"}, Namespace: "shop"}
	has := func(keys string) {
		t.Helper()
		require.JSONEq(t, keys, (<-meshes).TokenRules(proxy).Rules[0].KeySet)
	}

	f.take(batchOfTokens(t, 1, issuer.URL+"/early"))
	has(`{"keys":[{"k":"b25l","kty":"oct"}]}`)
	f.take(batchOfTokens(t, 2, issuer.URL+"/late", "audiences: [other], "))
	for m := range meshes { // it may be told again what it has already
		if m.Revision == 2 {
			require.JSONEq(t, webkeys.Nobodys, m.TokenRules(proxy).Rules[0].KeySet, "nobody waits for it")
			break
		}
	}
	close(open)
	has(`{"keys":[{"k":"b25l","kty":"oct"}]}`)
	cancel()
	require.ErrorIs(t, g.Wait(), context.Canceled)
}

func batchOfTokens(t *testing.T, revision int64, url string, more ...string) kinds.Batch {
	t.Helper()
	documents, err := kinds.Parse("test.yaml", fmt.Appendf(nil, "apiVersion: security.istio.io/v1\nkind: RequestAuthentication\n"+
		"metadata: {name: all, namespace: shop}\nspec: {jwtRules: [{%sissuer: a, jwksUri: %q}]}\n", strings.Join(more, ""), url))
	require.NoError(t, err)
	r := documents[0].Resource
	return kinds.Batch{Revision: revision, Changes: []kinds.Change{{Key: r.Key(), Resource: r}}}
}
