package registry_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	"github.com/pgmesh/pgmesh/internal/caller"
	"github.com/pgmesh/pgmesh/internal/rpc"
	"github.com/pgmesh/pgmesh/internal/testbench/journal"
	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/internal/testbench/poll"
	"github.com/pgmesh/pgmesh/mcp-server/registry"
	machinev1 "github.com/pgmesh/pgmesh/proto/pgmesh/machine/v1"
	"github.com/pgmesh/pgmesh/store"
)

func TestMain(m *testing.M) { os.Exit(pgtest.VerifyMain(m)) }

const limit = 30 * time.Second

// bundle is a database with the WorkloadGroup shop/web, and psql on it.
type bundle struct {
	t    *testing.T
	url  string
	conn *pgx.Conn
}

const web = `{"metadata": {"labels": {"app": "web"}}, "template": {"serviceAccount": "web", "ports": {"http": 8080}}}`

func begin(t *testing.T) *bundle {
	t.Helper()
	return beginOn(t, pgtest.New(t))
}

func beginOn(t *testing.T, url string) *bundle {
	t.Helper()
	b := &bundle{t: t, url: url}
	var err error
	b.conn, err = pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = b.conn.Close(context.Background()) })
	b.group("web", web)
	return b
}

func (b *bundle) exec(sql string, args ...any) {
	b.t.Helper()
	_, err := b.conn.Exec(b.t.Context(), sql, args...)
	require.NoError(b.t, err, sql)
}

// group writes a WorkloadGroup in the namespace shop.
func (b *bundle) group(name, spec string) {
	b.t.Helper()
	b.exec(`INSERT INTO mesh.resources (kind, namespace, name, spec) VALUES ('WorkloadGroup', 'shop', $1, $2)
		ON CONFLICT (kind, api_group, namespace, name) DO UPDATE SET spec = EXCLUDED.spec`, name, spec)
}

// list returns the first column of a query.
func list[T any](b *bundle, sql string, args ...any) []T {
	b.t.Helper()
	rows, err := b.conn.Query(b.t.Context(), sql, args...)
	require.NoError(b.t, err, sql)
	found, err := pgx.CollectRows(rows, pgx.RowTo[T])
	require.NoError(b.t, err, sql)
	return found
}

func one[T any](b *bundle, sql string, args ...any) T {
	b.t.Helper()
	found := list[T](b, sql, args...)
	require.Len(b.t, found, 1, sql)
	return found[0]
}

func (b *bundle) newest() int64 {
	return one[int64](b, "SELECT coalesce(max(revision), 0) FROM mesh_internal.transactions")
}

// entries returns the names of all WorkloadEntries.
func (b *bundle) entries() []string {
	return list[string](b, "SELECT name FROM mesh.resources WHERE kind = 'WorkloadEntry' ORDER BY name")
}

// eventually waits until a query returns a value.
func eventually[T any](b *bundle, want T, sql string, args ...any) {
	b.t.Helper()
	poll.Eventually(b.t, func(context.Context) error {
		if is := list[T](b, sql, args...); len(is) != 1 || any(is[0]) != any(want) {
			return fmt.Errorf("%s is %v, not %v", sql, is, want)
		}
		return nil
	})
}

// server is the service on a socket of its own.
type server struct {
	t       *testing.T
	address string
	metrics *prometheus.Registry
	log     *journal.Journal
	kill    func() // as if the process had been killed
	stop    func() // in good order
}

// quick has a grace period of a second or two.
var quick = registry.Options{Name: "quick", Grace: time.Second, RefreshInterval: 20 * time.Millisecond, Lease: 2 * time.Second}

// patient has a grace period that does not end within a test.
var patient = registry.Options{Name: "patient", Grace: time.Hour, RefreshInterval: 20 * time.Millisecond, Lease: time.Minute}

func (b *bundle) serve(o registry.Options) *server {
	b.t.Helper()
	return b.serveOn(o, b.url)
}

func (b *bundle) serveOn(o registry.Options, url string) *server {
	b.t.Helper()
	db, err := store.New(url, store.Options{})
	require.NoError(b.t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b.t, err)
	s := &server{t: b.t, address: l.Addr().String(), metrics: prometheus.NewRegistry(), log: &journal.Journal{}}
	r := registry.New(db, slog.New(slog.NewTextHandler(s.log, nil)), s.metrics, o)
	g := rpc.NewServer(grpc.ChainStreamInterceptor(func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
		return rpc.Handle(caller.With(stream.Context(), caller.Trusted()), srv, stream, next)
	}))
	r.Register(g)
	ctx, cancel := context.WithCancel(context.Background())
	ran, served := make(chan error, 1), make(chan error, 1)
	go func() { ran <- r.Run(ctx) }()
	go func() { served <- rpc.Serve(ctx, g, l, r.Shutdown) }()
	ended := false
	s.stop = func() {
		if ended {
			return
		}
		ended = true
		cancel()
		require.ErrorIs(b.t, <-ran, context.Canceled)
		require.NoError(b.t, <-served)
		db.Close()
	}
	s.kill = func() {
		if ended {
			return
		}
		db.Close() // so that nothing more is said to the database
		s.stop()
	}
	b.t.Cleanup(func() {
		s.stop()
		require.NotContains(b.t, s.log.String(), "nobody knew of", "what is left over must not be what is relied upon")
		require.NotContains(b.t, s.log.String(), "SQLSTATE 42", "a statement of ours that is wrong")
	})
	return s
}

// discovery is a session with a server.
type discovery struct {
	t       *testing.T
	stream  grpc.BidiStreamingClient[machinev1.KeepRequest, machinev1.KeepResponse]
	number  uint64
	answers chan *machinev1.KeepResponse
	over    chan struct{} // closed when the stream has ended
	why     error         // by then
	leave   func()
}

func (s *server) discovery(name string) *discovery {
	s.t.Helper()
	conn, err := grpc.NewClient(s.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(s.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	d := &discovery{t: s.t, answers: make(chan *machinev1.KeepResponse, 1), over: make(chan struct{})}
	d.stream, err = machinev1.NewRegistryServiceClient(conn).Keep(ctx)
	require.NoError(s.t, err)
	left := false
	d.leave = func() {
		if !left {
			left = true
			cancel()
			<-d.over
			_ = conn.Close()
		}
	}
	s.t.Cleanup(d.leave)
	go d.receive()
	require.NoError(s.t, d.stream.Send(&machinev1.KeepRequest{Discovery: name}))
	return d
}

func (d *discovery) receive() {
	defer close(d.over)
	for {
		answer, err := d.stream.Recv()
		if err != nil {
			d.why = err
			return
		}
		d.answers <- answer // of which there is one for each message
	}
}

// dead reports whether the stream has ended.
func (d *discovery) dead() bool {
	select {
	case <-d.over:
		return true
	default:
		return false
	}
}

// tell sends changes in one message.
func (d *discovery) tell(changes ...*machinev1.Change) ([]*machinev1.Outcome, error) {
	d.number++
	if err := d.stream.Send(&machinev1.KeepRequest{Number: d.number, Changes: changes}); err != nil {
		<-d.over
		return nil, d.why
	}
	select {
	case answer := <-d.answers:
		require.Equal(d.t, d.number, answer.GetNumber())
		require.Len(d.t, answer.GetOutcomes(), len(changes))
		return answer.GetOutcomes(), nil
	case <-d.over:
		return nil, d.why
	}
}

// told returns the outcome of one change.
func (d *discovery) told(c *machinev1.Change) *machinev1.Outcome {
	d.t.Helper()
	outcomes, err := d.tell(c)
	require.NoError(d.t, err)
	return outcomes[0]
}

// ended returns the error that the stream ended with.
func (d *discovery) ended() error {
	d.t.Helper()
	select {
	case <-d.over:
		return d.why
	case <-time.After(limit):
		d.t.Fatal("the stream goes on")
		return nil
	}
}

// here is a healthy machine with the group web and the service account web in the namespace shop.
func here(machine, address string, since int64, change ...func(*machinev1.Change)) *machinev1.Change {
	c := &machinev1.Change{
		Namespace: "shop", ServiceAccount: "web", Machine: machine, Since: since, Address: address, State: machinev1.Change_STATE_HERE,
		Service: &machinev1.Service{Group: "web", Health: machinev1.Health_HEALTH_HEALTHY},
	}
	for _, f := range change {
		f(c)
	}
	return c
}

// as is what has become of a machine.
func as(c *machinev1.Change, state machinev1.Change_State) *machinev1.Change {
	c = proto.CloneOf(c)
	c.State = state
	return c
}

func gone(c *machinev1.Change) *machinev1.Change { return as(c, machinev1.Change_STATE_GONE) }
func left(c *machinev1.Change) *machinev1.Change { return as(c, machinev1.Change_STATE_LEFT) }

func connectTo(b *bundle, config *pgx.ConnConfig) (*pgx.Conn, error) {
	conn, err := pgx.ConnectConfig(b.t.Context(), config)
	if err == nil {
		b.t.Cleanup(func() { _ = conn.Close(context.Background()) })
	}
	return conn, err
}

// beginStandby starts a bundle on the standby of a pair.
func beginStandby(b *bundle, pair *pgtest.Pair) *bundle {
	b.t.Helper()
	config, err := pgx.ParseConfig(pair.Standby.URL)
	require.NoError(b.t, err)
	again := *b
	again.conn, err = connectTo(b, config)
	require.NoError(b.t, err)
	return &again
}
