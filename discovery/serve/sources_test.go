package serve

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/pgmesh/pgmesh/discovery/configstore"
	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/push"
	"github.com/pgmesh/pgmesh/discovery/source/files"
	"github.com/pgmesh/pgmesh/internal/dial"
	"github.com/pgmesh/pgmesh/internal/listen"
)

// A script changes files, waits for their version, and connects a proxy, which must not be served
// what was there before.
func TestTheVersionOfFilesChangesOnceTheyArePushed(t *testing.T) {
	t.Parallel()
	folder, log, metrics := t.TempDir(), slog.New(slog.DiscardHandler), prometheus.NewRegistry()
	require.NoError(t, os.WriteFile(filepath.Join(folder, "mesh.yaml"),
		[]byte("apiVersion: networking.istio.io/v1\nkind: WorkloadEntry\nmetadata: {name: a, namespace: shop}\nspec: {address: 10.0.0.1}\n"), 0o600))
	want, err := files.Version(folder)
	require.NoError(t, err)
	sources := Sources{Directory: folder}
	config, pages, err := sources.open(listen.Plaintext{}, dial.Nobody, log, metrics)
	require.NoError(t, err)
	version := func() string {
		answer := httptest.NewRecorder()
		pages[0].Handler.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), "GET", "/files", nil))
		var told files.Status
		require.NoError(t, json.NewDecoder(answer.Body).Decode(&told))
		return told.Version
	}
	begun, goOn := make(chan struct{}), make(chan struct{})
	engine := push.New(log, prometheus.NewRegistry())
	f := newFollower(func(m *mesh.Mesh, step configstore.Step) {
		close(begun)
		<-goOn
		engine.Update(m, step)
	}, metrics)
	ctx, cancel := context.WithCancel(t.Context())
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return config.Run(ctx, f.hears(engine)) })
	g.Go(func() error { return f.run(ctx) })

	<-begun
	require.Empty(t, version(), "the push of these files has not ended")
	close(goOn)
	require.Eventually(t, func() bool { return version() == want }, 20*time.Second, time.Millisecond)
	cancel()
	require.ErrorIs(t, g.Wait(), context.Canceled)
}
