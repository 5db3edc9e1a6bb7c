package mirror_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/gate"
	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/internal/testbench/poll"
	"github.com/pgmesh/pgmesh/internal/testbench/storetest"
	"github.com/pgmesh/pgmesh/mcp-server/mirror"
	"github.com/pgmesh/pgmesh/mcp-server/publish"
	"github.com/pgmesh/pgmesh/mcp-server/registries"
	"github.com/pgmesh/pgmesh/registry"
	"github.com/pgmesh/pgmesh/store"
)

func TestMain(m *testing.M) { os.Exit(pgtest.VerifyMain(m)) }

// nothing is a registry without services.
type nothing struct{}

func (nothing) Name() string { return "inventory" }

func (nothing) Run(ctx context.Context, sink registry.Sink) error {
	sink.Replace(nil)
	<-ctx.Done()
	return ctx.Err()
}

// until runs something until the test ends.
func until(t *testing.T, run func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
	})
}

// mirrors has a server of this name mirror the registry.
func mirrors(t *testing.T, database, name string) {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	s, err := store.Open(t.Context(), database, store.Options{Log: log})
	require.NoError(t, err)
	t.Cleanup(s.Close)
	metrics := prometheus.NewRegistry()
	all := registries.New(publish.New(metrics), log, metrics, registries.Options{Registries: []registry.Registry{nothing{}}, Wait: time.Minute})
	until(t, all.Run)
	until(t, mirror.New(s, all.Trails(), log, metrics, mirror.Options{
		Name: name, ClaimInterval: 20 * time.Millisecond, CheckInterval: 20 * time.Millisecond, CheckTimeout: 500 * time.Millisecond,
	}).Run)
}

// A server whose way to the database hangs leaves the registry to another.
func TestADatabaseThatHangsHoldsNoRegistry(t *testing.T) {
	t.Parallel()
	database := pgtest.New(t)
	db := storetest.Connect(t, database)
	shownBy := func(within time.Duration, server string) {
		t.Helper()
		poll.Within(t, within, func(context.Context) error {
			if by := storetest.Collect[string](db, "SELECT server || ' ' || state FROM mesh.registries"); len(by) != 1 || by[0] != server+" current" {
				return fmt.Errorf("it is shown by %q, and not by %s", by, server)
			}
			return nil
		})
	}
	u, err := url.Parse(database)
	require.NoError(t, err)
	way := gate.Open(t, u.Host)
	u.Host = way.Address()
	mirrors(t, u.String(), "first")
	shownBy(poll.Longest, "first")
	mirrors(t, database, "second")
	way.Hold()
	shownBy(store.QueryTimeout/2, "second")
}
