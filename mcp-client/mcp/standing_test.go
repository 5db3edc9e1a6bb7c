package mcp_test

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/pgmesh/pgmesh/internal/ads/served"
	"github.com/pgmesh/pgmesh/internal/testbench/journal"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/mcp"
	mcpv1 "github.com/pgmesh/pgmesh/proto/pgmesh/mcp/v1"
)

// stand sets the standing that the source sends from its next revision on.
func (s *source) stand(version string, m *mcpv1.Standing) {
	body, err := anypb.New(m)
	require.NoError(s.t, err)
	s.sets = maps.Clone(s.sets) // what was published does not change
	s.sets[mcpv1.StandingTypeURL] = served.NewSet(&served.Resource{Name: mcpv1.StandingName, Version: version, Body: body})
}

func TestStandingArrivesBeforeFirstBatch(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, form func(*mcp.Config)) {
		s := newSource(t)
		since := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
		s.stand("1", &mcpv1.Standing{Mesh: "m", StaleSince: timestamppb.New(since), Saved: true, Path: []string{"a", "b"}})
		s.commit(1, resources{entry("a", "1")})
		heard := make(chan mcp.Standing, 2)
		f := follow(t, s.addr, form, func(cfg *mcp.Config) {
			cfg.Standing = func(st mcp.Standing) error { heard <- st; return nil }
		})
		stale := mcp.Standing{Mesh: "m", Stale: since, Saved: true, Path: []string{"a", "b"}}
		f.expect(1, "ServiceEntry default/a=1")
		require.Len(t, heard, 1)
		require.Equal(t, stale, <-heard)
		require.Equal(t, &stale, f.client.Status().Standing)

		s.stand("2", &mcpv1.Standing{Mesh: "m", Path: []string{"a", "b"}, Registries: []*mcpv1.RegistryStanding{
			{Name: "consul", StaleSince: timestamppb.New(since), Read: true, Servers: []string{"c"}, Meshes: []string{"n"}}, {Name: "files"},
		}})
		s.commit(1, nil)
		require.Equal(t, mcp.Standing{Mesh: "m", Path: []string{"a", "b"}, Registries: []mcp.RegistryStanding{
			{Name: "consul", Stale: since, Read: true, Servers: []string{"c"}, Meshes: []string{"n"}}, {Name: "files"},
		}}, <-heard)
	})
}

// run follows a server until the client ends by itself.
func run(t *testing.T, s *source, change func(*mcp.Config)) error {
	cfg := mcp.Config{
		Targets: []string{s.addr}, Kinds: both, Name: "test",
		DialOptions: []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())},
	}
	change(&cfg)
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	return mcp.New(cfg).Run(ctx, func(kinds.Batch) error { t.Error("a batch was delivered"); return nil })
}

func TestStandingErrorEndsRun(t *testing.T) {
	t.Parallel()
	s := newSource(t)
	s.stand("1", &mcpv1.Standing{Mesh: "other"})
	s.commit(1, resources{entry("a", "1")})
	refusal := errors.New("another mesh")
	require.ErrorIs(t, run(t, s, func(cfg *mcp.Config) { cfg.Standing = func(mcp.Standing) error { return refusal } }), refusal)
}

func TestOnceEndsWithTheStream(t *testing.T) {
	t.Parallel()
	s := newSource(t)
	s.kill()
	require.ErrorContains(t, run(t, s, func(cfg *mcp.Config) { cfg.Once = true }), "connection refused")
}

func TestFirstBatchIsDifferenceFromHeld(t *testing.T) {
	t.Parallel()
	s := newSource(t)
	s.commit(4, resources{entry("same", "1"), entry("other", "2")})
	f := follow(t, s.addr, func(cfg *mcp.Config) {
		cfg.Held = map[kinds.Key]string{
			entry("same", "").Key(): "1", entry("other", "").Key(): "1", route("gone", "").Key(): "1",
		}
	})
	b := f.expect(4, "ServiceEntry default/other=2", "VirtualService default/gone gone")
	require.Equal(t, "4", b.Mark)
	require.Nil(t, b.Changes[0].Body, "nobody asked for it")
}

func TestBodiesAreExact(t *testing.T) {
	t.Parallel()
	s := newSource(t)
	s.commit(1, resources{entry("a", "1")})
	sent := s.sets[serviceEntry.TypeURL()].Get("default/a").Body
	f := follow(t, s.addr, func(cfg *mcp.Config) { cfg.Bodies = true })
	got := f.expect(1, "ServiceEntry default/a=1").Changes[0].Body
	require.Equal(t, sent.GetTypeUrl(), got.GetTypeUrl())
	require.Equal(t, sent.GetValue(), got.GetValue())
}

// A server restarted without its database may have an older state. Only a server with its database
// may go back.
func TestStaleServerCannotGoBack(t *testing.T) {
	t.Parallel()
	s := newSource(t)
	stale := timestamppb.New(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC))
	s.stand("live", &mcpv1.Standing{Mesh: "m", Path: []string{"a"}})
	s.commit(9, resources{entry("a", "9"), entry("b", "9")})
	var log journal.Journal
	f := follow(t, s.addr, func(cfg *mcp.Config) { cfg.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	f.expect(9, "ServiceEntry default/a=9", "ServiceEntry default/b=9")

	s.kill()
	s.stand("saved", &mcpv1.Standing{Mesh: "m", StaleSince: stale, Saved: true, Path: []string{"b"}})
	s.commit(8, resources{entry("a", "8")}, entry("b", "").Key())
	s.start()
	require.Eventually(t, func() bool {
		err := f.client.Status().LastError
		return err != nil && err.Error() == "the server has lost what it serves, and is behind what was delivered already (revision 8 after 9)"
	}, limit, time.Millisecond)
	require.Equal(t, int64(9), f.client.Status().Revision)

	s.stand("restored", &mcpv1.Standing{Mesh: "m", Path: []string{"b"}})
	s.commit(7, resources{entry("a", "7")})
	f.expect(7, "ServiceEntry default/a=7", "ServiceEntry default/b gone")
	s.stand("other", &mcpv1.Standing{Mesh: "other", StaleSince: stale, Saved: true, Path: []string{"b"}})
	s.commit(1, resources{entry("a", "1")})
	f.expect(1, "ServiceEntry default/a=1")
	require.Equal(t, 1, strings.Count(log.String(), "the mesh went back to an older revision"), "another mesh is no return: %s", log.String())
	require.Contains(t, log.String(), "revision=7 seen=9")
}

// Synced tells that a stream has caught up, also where the server has nothing new.
func TestSyncedIsCalledOnceAStream(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, form func(*mcp.Config)) {
		s := newSource(t)
		s.commit(1, resources{entry("a", "1")})
		synced := make(chan struct{}, 10)
		f := follow(t, s.addr, form, func(cfg *mcp.Config) { cfg.Synced = func() { synced <- struct{}{} } })
		f.expect(1, "ServiceEntry default/a=1")
		<-synced
		s.commit(2, resources{entry("a", "2")})
		f.expect(2, "ServiceEntry default/a=2")
		require.Empty(t, synced, "it goes on")
		s.cut()
		<-synced
	})
}
