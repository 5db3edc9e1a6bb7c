package faultnet_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/pgmesh/pgmesh/internal/listen"
	"github.com/pgmesh/pgmesh/internal/monitor"
	"github.com/pgmesh/pgmesh/internal/testbench/faultnet"
	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/mcp"
	"github.com/pgmesh/pgmesh/mcp-server/serve"
)

func TestMain(m *testing.M) { os.Exit(pgtest.VerifyMain(m)) }

// limit bounds every wait.
const limit = 30 * time.Second

// mesh is a database with servers. Its resources are service entries and workload entries, of which
// only a label changes.
type mesh struct {
	t        *testing.T
	database string
	conn     *pgx.Conn
	random   *rand.Rand
	commits  int
}

func newMesh(t *testing.T, seed uint64) *mesh {
	t.Helper()
	m := &mesh{t: t, database: pgtest.New(t), random: rand.New(rand.NewPCG(seed, 7))}
	conn, err := pgx.Connect(t.Context(), m.database)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close(context.Background())) })
	m.conn = conn
	m.commit()
	return m
}

// replica starts a server and returns its address.
func (m *mesh) replica() string {
	m.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	started, ended := make(chan serve.Addresses, 1), make(chan error, 1)
	go func() {
		ended <- serve.Run(ctx, serve.Options{
			Database: m.database, Listen: "127.0.0.1:0", HTTP: monitor.Options{Address: "127.0.0.1:0"}, Plaintext: listen.Plaintext{Allowed: true},
			Log: slog.New(slog.DiscardHandler),
		}, func(a serve.Addresses) { started <- a })
	}()
	m.t.Cleanup(func() {
		cancel()
		require.NoError(m.t, <-ended)
	})
	select {
	case a := <-started:
		return a.MCP.String()
	case err := <-ended:
		ended <- err
		m.t.Fatalf("starting the server: %v", err)
	}
	return ""
}

var specs = map[string]string{
	"ServiceEntry":  `{"hosts": ["shop.example"], "ports": [{"number": 80, "name": "http", "protocol": "HTTP"}], "resolution": "DNS"}`,
	"WorkloadEntry": `{"address": "10.0.0.1"}`,
}

// commit is a transaction that writes the same number into two resources of different kinds, and
// changes a few others.
func (m *mesh) commit() {
	m.t.Helper()
	m.commits++
	require.NoError(m.t, pgx.BeginFunc(m.t.Context(), m.conn, func(tx pgx.Tx) error {
		for kind := range specs {
			if err := m.put(tx, kind, "pair", m.commits); err != nil {
				return err
			}
		}
		for range m.random.IntN(4) {
			kind, name := []string{"ServiceEntry", "WorkloadEntry"}[m.random.IntN(2)], fmt.Sprint("r", m.random.IntN(6))
			if m.random.IntN(3) == 0 {
				if _, err := tx.Exec(m.t.Context(), "DELETE FROM mesh.resources WHERE kind = $1 AND name = $2", kind, name); err != nil {
					return err
				}
				continue
			}
			if err := m.put(tx, kind, name, m.random.IntN(3)); err != nil {
				return err
			}
		}
		return nil
	}))
}

func (m *mesh) put(tx pgx.Tx, kind, name string, n int) error {
	_, err := tx.Exec(m.t.Context(), `INSERT INTO mesh.resources (kind, name, labels, spec) VALUES ($1, $2, jsonb_build_object('n', $3::text), $4)
		ON CONFLICT (kind, api_group, namespace, name) DO UPDATE SET labels = EXCLUDED.labels`, kind, name, fmt.Sprint(n), specs[kind])
	return err
}

// state is what the database has.
func (m *mesh) state() map[string]string {
	m.t.Helper()
	rows, err := m.conn.Query(m.t.Context(), "SELECT kind || ' ' || namespace || '/' || name, labels->>'n' FROM mesh.resources")
	require.NoError(m.t, err)
	state, key, n := map[string]string{}, "", ""
	_, err = pgx.ForEachRow(rows, []any{&key, &n}, func() error { state[key] = n; return nil })
	require.NoError(m.t, err)
	return state
}

// reader is a client, with what it was given.
type reader struct {
	t     *testing.T
	whole bool // every batch must be a whole transaction
	stop  func()
	news  chan struct{}

	mu    sync.Mutex
	state map[string]string
}

func read(t *testing.T, protocol mcp.Protocol, whole bool, addresses ...string) *reader {
	t.Helper()
	r := &reader{t: t, whole: whole, news: make(chan struct{}, 1), state: map[string]string{}}
	client := mcp.New(mcp.Config{
		Targets: addresses, Protocol: protocol, Kinds: followed(t), Name: "test",
		DialOptions: []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())},
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- client.Run(ctx, r.apply) }()
	r.stop = sync.OnceFunc(func() {
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
	})
	t.Cleanup(r.stop)
	return r
}

func followed(t *testing.T) (ks []*kinds.Kind) {
	t.Helper()
	for name := range specs {
		k, err := kinds.ByName(name)
		require.NoError(t, err)
		ks = append(ks, k)
	}
	return ks
}

func (r *reader) apply(b kinds.Batch) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range b.Changes {
		if c.Resource == nil {
			delete(r.state, c.Key.String())
		} else {
			r.state[c.Key.String()] = c.Resource.Labels["n"]
		}
	}
	if one, two := r.state["ServiceEntry default/pair"], r.state["WorkloadEntry default/pair"]; r.whole && one != two {
		return fmt.Errorf("half a transaction: %s and %s", one, two)
	}
	select {
	case r.news <- struct{}{}:
	default:
	}
	return nil
}

func (r *reader) has() map[string]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.state)
}

// await returns when the client has what the database has.
func (r *reader) await(want map[string]string) {
	r.t.Helper()
	late := time.After(limit)
	for {
		if maps.Equal(want, r.has()) {
			return
		}
		select {
		case <-r.news:
		case <-late:
			require.FailNow(r.t, "the client does not get to the state of the server", cmp.Diff(want, r.has()))
		}
	}
}

func proxy(t *testing.T, server string) *faultnet.Proxy {
	t.Helper()
	p, err := faultnet.Listen(server)
	require.NoError(t, err)
	t.Cleanup(p.Close)
	return p
}

// forms are the protocols of the pair, and whether each delivers whole transactions.
var forms = map[mcp.Protocol]bool{mcp.Delta: true, mcp.XDS: true, mcp.Legacy: false}

func eachForm(t *testing.T, test func(t *testing.T, protocol mcp.Protocol, whole bool)) {
	t.Helper()
	for protocol, whole := range forms {
		t.Run(string(protocol), func(t *testing.T) {
			t.Parallel()
			test(t, protocol, whole)
		})
	}
}

// A new client's connection is cut after the first message, the next one's after the second, and so
// on, until an exchange ends uncut. In each, transactions are committed before, during and after
// the connection.
func TestCutAfterEveryMessage(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]func(n int) faultnet.Fault{
		"of the server": func(n int) faultnet.Fault { return faultnet.Fault{Down: n} },
		"of the client": func(n int) faultnet.Fault { return faultnet.Fault{Up: n} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachForm(t, func(t *testing.T, protocol mcp.Protocol, whole bool) {
				m := newMesh(t, 1)
				p := proxy(t, m.replica())
				n := 1
				for cut := true; cut; n++ {
					p.Break(firstOnly(fault(n)))
					r := read(t, protocol, whole, p.Addr())
					r.await(m.state())
					for range 2 {
						m.commit()
						r.await(m.state())
					}
					cut = p.Cut() > 0
					r.stop()
				}
				require.Greater(t, n, 5, "an exchange has as many messages")
			})
		})
	}
}

func firstOnly(f faultnet.Fault) func(int) faultnet.Fault {
	return func(n int) faultnet.Fault {
		if n > 0 {
			return faultnet.Fault{}
		}
		return f
	}
}

// Connections are cut anywhere, in the middle of frames and of the preface, one after another,
// while transactions go on. What does arrive is late.
func TestCutAnywhereAndLate(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, protocol mcp.Protocol, whole bool) {
		for seed := range uint64(4) {
			t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
				t.Parallel()
				m := newMesh(t, seed)
				p := proxy(t, m.replica())
				p.Break(anywhere(seed, 6))
				r := read(t, protocol, whole, p.Addr())
				for range 20 {
					m.commit()
				}
				r.await(m.state())
				for range 10 {
					m.commit()
					r.await(m.state())
				}
			})
		}
	})
}

// anywhere cuts the first few connections at random.
func anywhere(seed uint64, last int) func(int) faultnet.Fault {
	return func(n int) faultnet.Fault {
		random, mu := rand.New(rand.NewPCG(seed, uint64(n))), sync.Mutex{}
		f := faultnet.Fault{Delay: func() time.Duration {
			mu.Lock()
			defer mu.Unlock()
			return time.Duration(random.Int64N(int64(3 * time.Millisecond))) // so that messages from the other server come sometimes before, sometimes after
		}}
		if n < last {
			f.Bytes = 1 + random.IntN(3000)
		}
		return f
	}
}

// Each cut leads to the other of two servers of one database.
func TestAnotherReplicaTakesOver(t *testing.T) {
	t.Parallel()
	eachForm(t, func(t *testing.T, protocol mcp.Protocol, whole bool) {
		m := newMesh(t, 3)
		replicas, random := []string{m.replica(), m.replica()}, rand.New(rand.NewPCG(3, 3))
		a, b := proxy(t, replicas[0]), proxy(t, replicas[1])
		for _, p := range []*faultnet.Proxy{a, b} {
			cuts := make([]int, 3)
			for i := range cuts {
				cuts[i] = 1 + random.IntN(12)
			}
			p.Break(func(n int) faultnet.Fault {
				if n < len(cuts) {
					return faultnet.Fault{Down: cuts[n]}
				}
				return faultnet.Fault{}
			})
		}
		r := read(t, protocol, whole, a.Addr(), b.Addr())
		for range 40 {
			m.commit()
			if m.random.IntN(3) == 0 {
				r.await(m.state())
			}
		}
		r.await(m.state())
		require.Positive(t, a.Cut())
		require.Positive(t, b.Cut())
	})
}
