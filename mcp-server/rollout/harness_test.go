package rollout_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/pgmesh/pgmesh/internal/caller"
	"github.com/pgmesh/pgmesh/internal/rpc"
	"github.com/pgmesh/pgmesh/internal/testbench/journal"
	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/internal/testbench/poll"
	"github.com/pgmesh/pgmesh/mcp-server/rollout"
	rolloutv1 "github.com/pgmesh/pgmesh/proto/pgmesh/rollout/v1"
	"github.com/pgmesh/pgmesh/store"
)

func TestMain(m *testing.M) { os.Exit(pgtest.VerifyMain(m)) }

const limit = 30 * time.Second

// server is the service on a socket of its own, with its database.
type server struct {
	t       *testing.T
	conn    *pgx.Conn // as of psql
	address string
	metrics *prometheus.Registry
	stop    func()
}

func serve(t *testing.T) *server {
	t.Helper()
	url := pgtest.New(t)
	db, err := store.New(url, store.Options{})
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &server{t: t, address: l.Addr().String(), metrics: prometheus.NewRegistry()}
	s.conn, err = pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.conn.Close(context.Background()) })
	log := &journal.Journal{}
	r := rollout.New(db, slog.New(slog.NewTextHandler(log, nil)), s.metrics, rollout.Options{Name: "mcp", CheckInterval: 20 * time.Millisecond, SweepInterval: 20 * time.Millisecond})
	g := rpc.NewServer(grpc.ChainStreamInterceptor(func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
		return rpc.Handle(caller.With(stream.Context(), caller.Trusted()), srv, stream, next)
	}), grpc.ChainUnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		return next(caller.With(ctx, caller.Trusted()), req)
	}))
	r.Register(g)
	ctx, cancel := context.WithCancel(context.Background())
	ran, served := make(chan error, 1), make(chan error, 1)
	go func() { ran <- r.Run(ctx) }()
	go func() { served <- rpc.Serve(ctx, g, l, r.Shutdown) }()
	stopped := false
	s.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		require.ErrorIs(t, <-ran, context.Canceled)
		require.NoError(t, <-served)
		db.Close()
		require.NotContains(t, log.String(), "level=ERROR")
	}
	t.Cleanup(s.stop)
	return s
}

// list returns the first column of a query.
func list[T any](s *server, sql string, args ...any) []T {
	s.t.Helper()
	rows, err := s.conn.Query(s.t.Context(), sql, args...)
	require.NoError(s.t, err, sql)
	found, err := pgx.CollectRows(rows, pgx.RowTo[T])
	require.NoError(s.t, err, sql)
	return found
}

// shown is what the view has: a line a proxy.
func (s *server) shown() []string {
	return list[string](s, `SELECT concat_ws(' ', namespace, proxy, state, 'sent', sent, 'runs', runs, 'refused', refused, 'of', discovery, 'at', server)
		FROM mesh.proxies ORDER BY namespace, proxy`)
}

// eventually waits until the view has these lines.
func (s *server) eventually(want ...string) {
	s.t.Helper()
	poll.Within(s.t, limit, func(context.Context) error {
		if got := s.shown(); !slices.Equal(got, want) {
			return fmt.Errorf("the view has %q", got)
		}
		return nil
	})
}

// keepers is how many sessions hold the lock of a keeper.
func (s *server) keepers() int64 {
	return list[int64](s, `SELECT count(*) FROM mesh_internal.report_keepers k JOIN pg_locks l ON l.pid = k.pid AND l.locktype = 'advisory' AND l.granted`)[0]
}

// nobodyKeeps waits until no session holds the lock of a keeper.
func (s *server) nobodyKeeps() {
	s.t.Helper()
	poll.Within(s.t, limit, func(context.Context) error {
		if n := s.keepers(); n > 0 {
			return fmt.Errorf("%d do", n)
		}
		return nil
	})
}

// discovery is a report to a server.
type discovery struct {
	t      *testing.T
	stream grpc.BidiStreamingClient[rolloutv1.ReportRequest, rolloutv1.ReportResponse]
	name   string
	number uint64
	leave  func() // as one that is stopped
}

func (s *server) discovery(name string) *discovery {
	s.t.Helper()
	conn, err := grpc.NewClient(s.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(s.t, err)
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	d := &discovery{t: s.t, name: name}
	d.stream, err = rolloutv1.NewRolloutServiceClient(conn).Report(ctx)
	require.NoError(s.t, err)
	d.leave = func() { cancel(); _ = conn.Close() }
	s.t.Cleanup(d.leave)
	return d
}

// tell sends a message, and waits for the answer.
func (d *discovery) tell(m *rolloutv1.ReportRequest) error {
	d.t.Helper()
	if d.number++; m.Number == 0 {
		m.Number = d.number
	}
	if d.number == 1 {
		m.Discovery = d.name
	}
	_ = d.stream.Send(m) // why it fails, the answer says
	answer, err := d.stream.Recv()
	if err == nil {
		require.Equal(d.t, m.GetNumber(), answer.GetNumber())
	}
	return err
}

// told is tell for what has to be taken.
func (d *discovery) told(revision int64, proxies ...*rolloutv1.Proxy) {
	d.t.Helper()
	require.NoError(d.t, d.tell(&rolloutv1.ReportRequest{Revision: revision, Proxies: proxies}))
}

// proxy is a new one in the namespace shop.
func proxy(stream uint64, name string) *rolloutv1.Proxy {
	return &rolloutv1.Proxy{Stream: stream, State: rolloutv1.Proxy_STATE_IN_STEP, Description: &rolloutv1.Description{
		Node: "sidecar~10.0.0.1~" + name + ".shop~shop.svc.cluster.local", Proxy: name, Namespace: "shop", ServiceAccount: "default", Role: "sidecar",
		Labels: map[string]string{"app": name}, Addresses: []string{"10.0.0.1"}, Envoy: "1.40.0", Protocol: "delta", Connected: timestamppb.Now(),
	}}
}
