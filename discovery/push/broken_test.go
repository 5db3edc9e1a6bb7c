package push

import (
	"log/slog"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/discovery/configstore"
	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/internal/kit/panics"
	"github.com/pgmesh/pgmesh/kinds"
)

// A proxy whose translation panics is refused. Nothing of it stays that could break the next
// update.
func TestAProxyThatCannotBeTranslatedForIsForgotten(t *testing.T) {
	t.Parallel()
	e := New(slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	e.Update(mesh.Build(configstore.New().Apply(kinds.Batch{}), nil), configstore.Step{})
	node := &corev3.Node{Id: "sidecar~10.0.0.1~a.default~default.svc.cluster.local"}
	whole := e.caches.in
	e.caches.in = nil // without a cache nothing can be made
	err := panics.Try("test", func() error {
		_, err := e.Open(t.Context(), node, true)
		return err
	})
	require.ErrorAs(t, err, new(*panics.Error))
	require.Empty(t, e.members)
	require.Empty(t, e.classes)

	e.caches.in = whole
	e.Update(e.mesh, configstore.Step{})
	s, err := e.Open(t.Context(), node, true)
	require.NoError(t, err)
	require.NotNil(t, s.Snapshot())
	s.Close()
}
