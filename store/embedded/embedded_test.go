package embedded_test

import (
	"context"
	"log/slog"
	"net"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/pgmesh/pgmesh/store/embedded"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func start(t *testing.T, o embedded.Options) *embedded.Server {
	t.Helper()
	o.Fast = true
	o.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	s, err := embedded.Start(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(s.Stop)
	return s
}

func query[T any](t *testing.T, url, sql string) T {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer conn.Close(context.WithoutCancel(t.Context()))
	var result T
	require.NoError(t, conn.QueryRow(t.Context(), sql).Scan(&result))
	return result
}

// dataDir is reachable for the server's account, which the test's own directory below a private
// home may not be.
func dataDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "pgmesh-embedded-test-")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func TestThrowawayServerAnswersAndLeavesNothing(t *testing.T) {
	s := start(t, embedded.Options{})
	require.Equal(t, 1, query[int](t, s.URL(), "SELECT 1"))
	s.Stop()
	require.NoDirExists(t, s.DataDir())
	require.NoDirExists(t, s.SocketDir())
}

func TestSecondStartFindsTheDataOfTheFirst(t *testing.T) {
	dir := dataDir(t)
	first := start(t, embedded.Options{DataDir: dir})
	require.Equal(t, 42, query[int](t, first.URL(), "SELECT lo_create(42)::int"))
	first.Stop()

	second := start(t, embedded.Options{DataDir: dir, Port: first.Port()})
	require.Equal(t, first.URL(), second.URL())
	require.Equal(t, 42, query[int](t, second.URL(), "SELECT oid::int FROM pg_largeobject_metadata"))
}

func TestStartSurvivesALockFileLeftBehind(t *testing.T) {
	dir := dataDir(t)
	start(t, embedded.Options{DataDir: dir}).Stop()
	require.NoError(t, os.WriteFile(dir+"/data/postmaster.pid", []byte("1\n"), 0o644))
	require.Equal(t, 1, query[int](t, start(t, embedded.Options{DataDir: dir}).URL(), "SELECT 1"))
}

func TestPortInUseIsNamed(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port

	_, err = embedded.Start(t.Context(), embedded.Options{Port: port})
	var inUse *embedded.PortInUseError
	require.ErrorAs(t, err, &inUse)
	require.Equal(t, port, inUse.Port)
}

func TestDirectoryWithoutBinariesIsRefused(t *testing.T) {
	_, err := embedded.Start(t.Context(), embedded.Options{BinDir: t.TempDir()})
	require.ErrorContains(t, err, "does not hold initdb and postgres")
}
