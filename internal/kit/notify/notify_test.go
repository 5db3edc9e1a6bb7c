package notify_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/kit/notify"
)

// manager listens on a socket as systemd does and returns a function that reads the next message.
// It changes the environment, so its tests cannot run in parallel.
func manager(t *testing.T, watchdog time.Duration) func() string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	require.NoError(t, err)
	t.Cleanup(func() { socket.Close() })
	t.Setenv("NOTIFY_SOCKET", path)
	t.Setenv("WATCHDOG_USEC", strconv.FormatInt(watchdog.Microseconds(), 10))
	t.Setenv("WATCHDOG_PID", strconv.Itoa(os.Getpid()))
	return func() string {
		t.Helper()
		require.NoError(t, socket.SetReadDeadline(time.Now().Add(20*time.Second)))
		datagram := make([]byte, 4096)
		n, err := socket.Read(datagram)
		require.NoError(t, err)
		return string(datagram[:n])
	}
}

// skipKeepAlives returns the next message that is not a keep-alive.
func skipKeepAlives(next func() string) string {
	for {
		if text := next(); text != "WATCHDOG=1\n" {
			return text
		}
	}
}

func TestRunReportsReadyAliveAndStopping(t *testing.T) {
	next := manager(t, 60*time.Millisecond)
	var state atomic.Value
	state.Store("waits\nfor its database")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- notify.Run(ctx, func() string { return state.Load().(string) }) }()

	require.Equal(t, "READY=1\nSTATUS=waits for its database\n", next())
	for range 3 {
		require.Equal(t, "WATCHDOG=1\n", next())
	}
	state.Store("serves")
	require.Equal(t, "STATUS=serves\nWATCHDOG=1\n", skipKeepAlives(next))
	cancel()
	require.Equal(t, "STOPPING=1\nSTATUS=ending\n", skipKeepAlives(next))
	require.NoError(t, <-done)
}

func TestRunWhenReadyWaitsUntilReady(t *testing.T) {
	next := manager(t, 0)
	type answer struct {
		about string
		ready bool
	}
	var now atomic.Value
	now.Store(answer{"waits for its database", false})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() {
		done <- notify.RunWhenReady(ctx, func() (string, bool) { a := now.Load().(answer); return a.about, a.ready })
	}()
	require.Equal(t, "STATUS=waits for its database\n", next())
	now.Store(answer{"waits for a migration", false})
	require.Equal(t, "STATUS=waits for a migration\n", next())
	now.Store(answer{"serves", true})
	require.Equal(t, "READY=1\nSTATUS=serves\n", next())
	now.Store(answer{"has lost its database", false}) // and serves on
	cancel()
	require.Equal(t, "STOPPING=1\nSTATUS=ending\n", next())
	require.NoError(t, <-done)
}

// A program that is stuck sends no keep-alive.
func TestNoKeepAliveWhileStuck(t *testing.T) {
	next := manager(t, 30*time.Millisecond)
	stuck, free := make(chan struct{}), make(chan struct{})
	calls := 0
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() {
		done <- notify.Run(ctx, func() string {
			if calls++; calls == 4 {
				close(stuck)
				<-free
			}
			return strconv.Itoa(calls)
		})
	}()
	for n := range 3 {
		require.Contains(t, next(), "STATUS="+strconv.Itoa(n+1))
	}
	<-stuck
	require.NoError(t, notify.Status("a sentence of somebody else")) // a foreign text: what follows would have come before it
	require.Equal(t, "STATUS=a sentence of somebody else\n", next())
	close(free)
	require.Equal(t, "STATUS=4\nWATCHDOG=1\n", next())
	cancel()
	require.NoError(t, <-done)
}

func TestReloading(t *testing.T) {
	next := manager(t, 0)
	require.NoError(t, notify.Reloading())
	first, second, _ := strings.Cut(next(), "\n")
	require.Equal(t, "RELOADING=1", first)
	require.Regexp(t, `^MONOTONIC_USEC=\d+\n$`, second)
	require.NoError(t, notify.Ready())
	require.Equal(t, "READY=1\n", next())
	require.NoError(t, notify.Stopping())
	require.Equal(t, "STOPPING=1\n", next())
}

func TestAbstractSocket(t *testing.T) {
	name := "@pgmesh-notify-" + strconv.Itoa(os.Getpid())
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	require.NoError(t, err)
	defer socket.Close()
	t.Setenv("NOTIFY_SOCKET", name)
	require.NoError(t, notify.Ready())
	datagram := make([]byte, 100)
	n, err := socket.Read(datagram)
	require.NoError(t, err)
	require.Equal(t, "READY=1\n", string(datagram[:n]))
}

func TestWithoutServiceManager(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	require.NoError(t, notify.Ready())
	require.NoError(t, notify.Run(t.Context(), func() string { panic("must not be called") }))

	t.Setenv("NOTIFY_SOCKET", filepath.Join(t.TempDir(), "gone"))
	require.ErrorContains(t, notify.Ready(), "tell the service manager")
}
