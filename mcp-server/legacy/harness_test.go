package legacy_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/pgmesh/pgmesh/internal/ads/served"
	"github.com/pgmesh/pgmesh/internal/rpc"
	"github.com/pgmesh/pgmesh/internal/testbench/journal"
	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/internal/testbench/storetest"
	"github.com/pgmesh/pgmesh/mcp-server/clients"
	"github.com/pgmesh/pgmesh/mcp-server/feed"
	"github.com/pgmesh/pgmesh/mcp-server/identity/seal"
	"github.com/pgmesh/pgmesh/mcp-server/legacy"
	"github.com/pgmesh/pgmesh/mcp-server/publish"
	legacyv1 "github.com/pgmesh/pgmesh/proto/istio/mcp/v1alpha1"
	"github.com/pgmesh/pgmesh/store"
)

func TestMain(m *testing.M) { os.Exit(pgtest.VerifyMain(m)) }

// limit bounds how long a test waits for what must come. No test waits for what must not come.
const limit = time.Minute

const (
	virtualServices = "istio/networking/v1alpha3/virtualservices"
	gateways        = "istio/networking/v1alpha3/gateways"
	meshConfigs     = "istio/mesh/v1alpha1/MeshConfig"
	serviceRoles    = "istio/rbac/v1alpha1/serviceroles"
)

// mesh is a database and the server under test.
type mesh struct {
	t        *testing.T
	database string
	conn     *pgx.Conn
	store    *store.Store
	source   *legacy.Source
	clients  *clients.Roll
	metrics  *prometheus.Registry
	log      *journal.Journal
	client   *grpc.ClientConn
	revision int64

	publisher *publish.Publisher
}

func newMesh(t *testing.T, configure ...func(*legacy.Config)) *mesh {
	t.Helper()
	return serve(t, pgtest.New(t), configure...)
}

// serve starts a server of a database.
func serve(t *testing.T, database string, configure ...func(*legacy.Config)) *mesh {
	t.Helper()
	m := prepare(t, database, configure...)
	m.load()
	require.NoError(t, m.publisher.Served(t.Context(), 0))
	return m
}

// prepare starts a server that has not loaded its database.
func prepare(t *testing.T, database string, configure ...func(*legacy.Config)) *mesh {
	t.Helper()
	m := &mesh{t: t, database: database, clients: clients.NewRoll(), metrics: prometheus.NewRegistry(), log: &journal.Journal{}}
	var err error
	m.conn, err = pgx.Connect(t.Context(), database)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.conn.Close(context.Background())) })
	m.store, err = store.Open(t.Context(), database, store.Options{})
	require.NoError(t, err)
	t.Cleanup(m.store.Close)
	m.publisher = publish.New(m.metrics)
	cfg := legacy.Config{
		Open:    func(context.Context) (*served.Subscriber, error) { return m.publisher.Subscribe(), nil },
		Clients: m.clients, Metrics: m.metrics, Log: slog.New(slog.NewTextHandler(m.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	for _, c := range configure {
		c(&cfg)
	}
	m.source = legacy.NewSource(cfg)
	m.client = dial(t, listen(t, m.source.Register))
	return m
}

// load starts loading the database.
func (m *mesh) load() {
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	source := feed.New(storetest.Feed(m.t, m.store), m.publisher, seal.None, slog.New(slog.DiscardHandler), m.metrics)
	go func() { ended <- source.Run(ctx) }()
	m.t.Cleanup(func() {
		stop()
		require.ErrorIs(m.t, <-ended, context.Canceled)
	})
}

// listen starts a gRPC server, and returns its address.
func listen(t *testing.T, register func(grpc.ServiceRegistrar)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := rpc.NewServer()
	register(s)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Stop()
		require.NoError(t, <-served)
	})
	return l.Addr().String()
}

func dial(t *testing.T, address string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(legacy.MaxMessage))) // as a Pilot receives
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	return conn
}

// sql changes the mesh in one transaction, and waits until that is served.
func (m *mesh) sql(statement string, args ...any) {
	m.t.Helper()
	_, err := m.conn.Exec(m.t.Context(), statement, args...)
	require.NoError(m.t, err)
	ctx, cancel := context.WithTimeout(m.t.Context(), limit)
	defer cancel()
	require.NoError(m.t, m.conn.QueryRow(ctx, "SELECT coalesce(max(revision), 0) FROM mesh.revisions").Scan(&m.revision))
	require.NoError(m.t, m.publisher.Served(ctx, m.revision))
}

// write creates VirtualServices, each given as "name=host".
func (m *mesh) write(resources ...string) {
	m.t.Helper()
	var values []string
	for _, r := range resources {
		name, host, _ := strings.Cut(r, "=")
		values = append(values, fmt.Sprintf(`('VirtualService', 'default', '%s',
			'{"hosts": [%q], "http": [{"route": [{"destination": {"host": "a"}}]}]}')`, name, host))
	}
	m.sql("INSERT INTO mesh.resources (kind, namespace, name, spec) VALUES " + strings.Join(values, ", ") +
		" ON CONFLICT (kind, api_group, namespace, name) DO UPDATE SET spec = EXCLUDED.spec")
}

// remove deletes VirtualServices.
func (m *mesh) remove(names ...string) {
	m.t.Helper()
	m.sql("DELETE FROM mesh.resources WHERE kind = 'VirtualService' AND name = ANY ($1)", names)
}

// metric is the value of a counter or gauge with these labels.
func (m *mesh) metric(name string, labels ...string) float64 {
	m.t.Helper()
	families, err := m.metrics.Gather()
	require.NoError(m.t, err)
	for _, f := range families {
		for _, one := range f.GetMetric() {
			var values []string
			for _, l := range one.GetLabel() {
				values = append(values, l.GetValue())
			}
			if f.GetName() == "pgmesh_mcp_server_"+name && slices.Equal(values, labels) {
				return one.GetCounter().GetValue() + one.GetGauge().GetValue()
			}
		}
	}
	return 0
}

// exchange is a stream as the sink has it, whichever side dialled.
type exchange interface {
	Send(*legacyv1.RequestResources) error
	Recv() (*legacyv1.Resources, error)
}

// sink is the sink's end of a stream, driven by a test.
type sink struct {
	t      *testing.T
	stream exchange
}

// connect opens a ResourceSource stream.
func (m *mesh) connect() *sink {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	m.t.Cleanup(cancel)
	stream, err := legacyv1.NewResourceSourceClient(m.client).EstablishResourceStream(ctx)
	require.NoError(m.t, err)
	return &sink{m.t, stream}
}

func (s *sink) send(r *legacyv1.RequestResources) {
	s.t.Helper()
	require.NoError(s.t, s.stream.Send(r))
}

func (s *sink) recv() *legacyv1.Resources {
	s.t.Helper()
	r, err := s.stream.Recv()
	require.NoError(s.t, err)
	return r
}

// ended returns the error that the stream ends with.
func (s *sink) ended() error {
	s.t.Helper()
	_, err := s.stream.Recv()
	require.Error(s.t, err)
	return err
}

// ask sends a first request as Pilot does.
func (s *sink) ask(collections ...string) {
	s.t.Helper()
	for _, c := range collections {
		s.send(&legacyv1.RequestResources{SinkNode: &legacyv1.SinkNode{Id: "pilot-0"}, Collection: c})
	}
}

func (s *sink) ack(r *legacyv1.Resources) {
	s.t.Helper()
	s.send(&legacyv1.RequestResources{Collection: r.GetCollection(), ResponseNonce: r.GetNonce(), Incremental: r.GetIncremental()})
}

// nack refuses as the stock sink does: with a request that is not incremental.
func (s *sink) nack(r *legacyv1.Resources) {
	s.t.Helper()
	s.send(&legacyv1.RequestResources{
		Collection: r.GetCollection(), ResponseNonce: r.GetNonce(),
		ErrorDetail: &status.Status{Code: int32(codes.InvalidArgument), Message: "it does not apply"},
	})
}

// silent checks that everything sent so far caused no response. It asks for a collection that was
// not asked for before, and expects that to be answered next.
func (s *sink) silent(probe string) {
	s.t.Helper()
	s.ask(probe)
	require.Equal(s.t, probe, s.recv().GetCollection())
}

// names lists the resources of a response.
func names(r *legacyv1.Resources) []string {
	list := []string{}
	for _, one := range r.GetResources() {
		list = append(list, one.GetMetadata().GetName())
	}
	return list
}
