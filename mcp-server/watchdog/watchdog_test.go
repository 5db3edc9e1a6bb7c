package watchdog_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/internal/testbench/poll"
	"github.com/pgmesh/pgmesh/mcp-server/watchdog"
	"github.com/pgmesh/pgmesh/store"
)

func TestMain(m *testing.M) { os.Exit(pgtest.VerifyMain(m)) }

// log is what was said.
type log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *log) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

func (l *log) says(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), text)
}

// scene is a database in which a session of a tenant holds up one of the owner.
type scene struct {
	t        *testing.T
	evil     *pgx.Conn
	log      log
	metrics  *prometheus.Registry
	dog      *watchdog.Watchdog
	released chan error // what became of the owner's change
}

func newScene(t *testing.T, o watchdog.Options, server bool) *scene {
	t.Helper()
	url := pgtest.New(t)
	owner := connect(t, url)
	role := owner.Config().Database + "_evil"
	grant := "SELECT mesh.grant_namespace('" + role + "', 'default', 'write')"
	if server {
		grant = "SELECT mesh.grant_server('" + role + "')"
	}
	exec(t, owner, "CREATE ROLE "+role+" LOGIN PASSWORD 'secret'; "+grant)
	t.Cleanup(func() { exec(t, owner, "DROP OWNED BY "+role+"; DROP ROLE "+role) })
	exec(t, owner, "INSERT INTO mesh.service_entries (name, hosts, ports) VALUES ('e', '{e.mesh}', '[{\"number\": 80, \"name\": \"http\", \"protocol\": \"HTTP\"}]')")
	c := owner.Config()
	login := pgtest.Login{Host: c.Host, Port: c.Port, Database: c.Database, User: role, Password: "secret"}
	s := &scene{t: t, evil: connect(t, login.URL()), metrics: prometheus.NewRegistry(), released: make(chan error, 1)}
	exec(t, s.evil, "BEGIN; UPDATE mesh.service_entries SET labels = '{\"a\": \"b\"}'")

	from, err := store.Open(t.Context(), url, store.Options{})
	require.NoError(t, err)
	s.dog = watchdog.New(from, o, slog.New(slog.NewTextHandler(&s.log, nil)), s.metrics)
	waiter := connect(t, url)
	go func() {
		_, err := waiter.Exec(context.WithoutCancel(t.Context()), "DELETE FROM mesh.service_entries")
		s.released <- err
	}()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.dog.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
		from.Close()
	})
	return s
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func exec(t *testing.T, conn *pgx.Conn, sql string) {
	t.Helper()
	_, err := conn.Exec(context.Background(), sql)
	require.NoError(t, err, sql)
}

func (s *scene) eventually(is func() bool, what string) {
	s.t.Helper()
	poll.Eventually(s.t, func(context.Context) error {
		if !is() {
			return errors.New(what)
		}
		return nil
	})
}

// gauge is the value of a metric without labels.
func (s *scene) gauge(name string) float64 {
	s.t.Helper()
	families, err := s.metrics.Gather()
	require.NoError(s.t, err)
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetGauge().GetValue() + f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	require.FailNow(s.t, "there is no metric "+name)
	return 0
}

// quick has short intervals, for tests.
var quick = watchdog.Options{SlowInterval: 20 * time.Millisecond, FastInterval: 20 * time.Millisecond, ReportAfter: 100 * time.Millisecond}

func TestABlockerIsReportedOnce(t *testing.T) {
	t.Parallel()
	s := newScene(t, quick, false)
	s.eventually(func() bool { return s.dog.About() != "" }, "it says nothing")
	require.Contains(t, s.dog.About(), "is in the way: 1 sessions wait for it")
	s.eventually(func() bool { return s.gauge("pgmesh_mcp_server_blocked_seconds") > 0.3 }, "it looks no more")
	require.Equal(t, 1, s.log.says("holds up others: have it commit"))
	require.InDelta(t, 1, s.gauge("pgmesh_mcp_server_blocked_sessions"), 0)
	exec(t, s.evil, "ROLLBACK")
	require.NoError(t, <-s.released)
	s.eventually(func() bool { return s.dog.About() == "" && s.log.says("holds up others no more") == 1 }, "it does not say that it is over")
	require.InDelta(t, 0, s.gauge("pgmesh_mcp_server_blocked_seconds"), 0)
	require.NoError(t, testutil.GatherAndCompare(s.metrics, strings.NewReader(`
# HELP pgmesh_mcp_server_blockers Sessions of the database that keep others waiting, by why: lock, queue or idle.
# TYPE pgmesh_mcp_server_blockers gauge
pgmesh_mcp_server_blockers{reason="idle"} 0
pgmesh_mcp_server_blockers{reason="lock"} 0
pgmesh_mcp_server_blockers{reason="queue"} 0
`), "pgmesh_mcp_server_blockers"))
}

func TestABlockerIsEndedAfterAWhile(t *testing.T) {
	t.Parallel()
	o := quick
	o.EndAfter = 300 * time.Millisecond
	s := newScene(t, o, false)
	require.NoError(t, <-s.released)
	s.eventually(func() bool { return s.gauge("pgmesh_mcp_server_blockers_ended_total") == 1 }, "it is not counted")
	_, err := s.evil.Exec(t.Context(), "SELECT 1")
	require.Error(t, err)
}

func TestServersAreNeverEnded(t *testing.T) {
	t.Parallel()
	o := quick
	o.EndAfter = time.Nanosecond
	s := newScene(t, o, true)
	s.eventually(func() bool { return s.gauge("pgmesh_mcp_server_blocked_seconds") > 0.3 }, "it does not look")
	require.Zero(t, s.gauge("pgmesh_mcp_server_blockers_ended_total"))
	exec(t, s.evil, "ROLLBACK")
	require.NoError(t, <-s.released)
}
