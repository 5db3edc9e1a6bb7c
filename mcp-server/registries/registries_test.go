package registries_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/internal/testbench/poll"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-server/publish"
	"github.com/pgmesh/pgmesh/mcp-server/registries"
	"github.com/pgmesh/pgmesh/registry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// scripted is a registry that does what a test says.
type scripted func(ctx context.Context, sink registry.Sink) error

func (scripted) Name() string { return "scripted" }

func (s scripted) Run(ctx context.Context, sink registry.Sink) error { return s(ctx, sink) }

// running runs a registry until the test ends.
func running(t *testing.T, r registry.Registry) *registries.Registries {
	t.Helper()
	p, metrics := publish.New(prometheus.NewRegistry()), prometheus.NewRegistry()
	all := registries.New(p, slog.New(slog.DiscardHandler), metrics, registries.Options{Registries: []registry.Registry{r}, Wait: time.Minute})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- all.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
	})
	return all
}

func TestARegistryWhoseSettingsAreWrongHarmsNobody(t *testing.T) {
	t.Parallel()
	all := running(t, scripted(func(context.Context, registry.Sink) error { return errors.New("no such datacenter") }))
	poll.Eventually(t, func(context.Context) error {
		if all.Status()[0].Error == nil {
			return errors.New("it is not away yet")
		}
		return nil
	})
	require.Contains(t, all.About(), "serving without the registry scripted, which was never read: no such datacenter")
}

func entry(name, entry string) *kinds.Resource {
	kind, _ := kinds.Lookup("networking.istio.io", "ServiceEntry")
	return &kinds.Resource{
		Kind: kind, Namespace: "default", Name: name, Annotations: map[string]string{kinds.OriginEntryAnnotation: entry},
		Spec: kinds.SpecOf(&networking.ServiceEntry{
			Hosts: []string{name + ".example.com"}, Ports: []*networking.ServicePort{{Number: 80, Name: "http", Protocol: "HTTP"}}, Resolution: networking.ServiceEntry_STATIC,
		}),
	}
}

func TestBadEntriesKeepTheirLastGoodState(t *testing.T) {
	t.Parallel()
	steps, done := make(chan func(registry.Sink)), make(chan struct{})
	all := running(t, scripted(func(ctx context.Context, sink registry.Sink) error {
		for {
			select {
			case step := <-steps:
				step(sink)
				done <- struct{}{}
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}))
	do := func(step func(registry.Sink)) registries.Status {
		steps <- step
		<-done
		return all.Status()[0]
	}
	one, two := entry("one", "one"), entry("two", "two")
	require.Equal(t, 2, do(func(s registry.Sink) { s.Replace([]*kinds.Resource{one, two}) }).Resources)
	now := do(func(s registry.Sink) {
		s.Bad("one", errors.New("has no port"))
		s.Replace(nil)
	})
	require.Equal(t, []registries.Bad{{Entry: "one", Reason: "has no port"}}, now.Bad)
	require.Equal(t, 1, now.Resources, "only what is bad stays where it is left out")
	now = do(func(s registry.Sink) {
		s.Bad("one", nil)
		s.Replace([]*kinds.Resource{two, {Kind: kinds.Secret, Namespace: "default", Name: "secret", Spec: kinds.SpecOf(kinds.Secret.NewSpec())}})
	})
	require.Equal(t, []registries.Bad{{Key: kinds.Key{Kind: kinds.Secret, Namespace: "default", Name: "secret"}, Entry: "Secret default/secret", Reason: "a secret is no resource, and is not served as one"}}, now.Bad)
	require.Equal(t, 1, now.Resources)
	name, of := all.Find(two.Key())
	require.Equal(t, "scripted two", name+" "+of)
	require.Empty(t, do(func(s registry.Sink) { s.Replace(nil) }).Bad)

	// What may not be read keeps all that it had.
	pods := []*kinds.Resource{entry("web", "pods/shop/web"), entry("cart", "pods/shop/cart"), entry("other", "podsand/shop/other"), entry("bare", "pods")}
	require.Equal(t, 4, do(func(s registry.Sink) { s.Replace(pods) }).Resources)
	require.Equal(t, 3, do(func(s registry.Sink) {
		s.Bad("pods", errors.New("forbidden"))
		s.Replace(nil)
	}).Resources)
	require.Equal(t, 0, do(func(s registry.Sink) {
		s.Bad("pods", nil)
		s.Replace(nil)
	}).Resources)
}
