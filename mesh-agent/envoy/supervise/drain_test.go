package supervise_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/envoytest"
	"github.com/pgmesh/pgmesh/mesh-agent/envoy/supervise"
)

// browse opens a connection and has one request answered on it.
func browse(t *testing.T, port uint32) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	reader := bufio.NewReader(conn)
	require.False(t, ask(t, conn, reader))
	return conn, reader
}

// ask sends a request, and reports whether the client was told to close.
func ask(t *testing.T, conn net.Conn, reader *bufio.Reader) (goes bool) {
	t.Helper()
	write(t, conn, "GET / HTTP/1.1\r\nhost: a\r\n\r\n")
	response, err := http.ReadResponse(reader, nil)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	return response.Close
}

func write(t *testing.T, conn net.Conn, words string) {
	t.Helper()
	_, err := conn.Write([]byte(words))
	require.NoError(t, err)
}

// surfed returns a supervised Envoy that answers requests.
func surfed(t *testing.T, change func(*supervise.Options)) (*supervised, uint32) {
	t.Helper()
	m := newMachine(t)
	s := start(t, func(o *supervise.Options) {
		o.Bootstrap = m.options.Bootstrap
		change(o)
	})
	s.awaitReady(t)
	return s, m.port
}

func TestIdleClientsDoNotHoldUpTheDrain(t *testing.T) {
	t.Parallel()
	s, port := surfed(t, func(o *supervise.Options) { o.DrainTime = time.Minute })
	busy, reader := browse(t, port)
	idle, idleReader := browse(t, port)
	s.end()
	s.await(t, "ending Envoy")
	require.Eventually(t, func() bool { return ask(t, busy, reader) }, 10*time.Second, 10*time.Millisecond)
	require.NoError(t, busy.Close())
	began := time.Now()
	require.NoError(t, <-s.result)
	require.Less(t, time.Since(began), 20*time.Second, "the idle connection is not waited for")
	_, err := idleReader.ReadByte()
	require.Error(t, err)
	require.NoError(t, idle.Close())
}

func TestDrainLastsDrainMin(t *testing.T) {
	t.Parallel()
	s, port := surfed(t, func(o *supervise.Options) { o.DrainTime, o.DrainMin = time.Minute, 1500*time.Millisecond })
	began := time.Now()
	s.end()
	s.await(t, "ending Envoy")
	require.Eventually(t, func() bool {
		conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		require.NoError(t, err, "whoever has not heard of it is still served")
		defer conn.Close()
		return ask(t, conn, bufio.NewReader(conn))
	}, 10*time.Second, 10*time.Millisecond)
	require.NoError(t, <-s.result)
	require.GreaterOrEqual(t, time.Since(began), 1500*time.Millisecond)
}

func TestSecondSignalEndsTheDrain(t *testing.T) {
	t.Parallel()
	hurry := make(chan os.Signal, 1)
	port := envoytest.Port(t)
	s := start(t, func(o *supervise.Options) {
		o.Bootstrap = fmt.Appendf(nil, echo, port)
		o.DrainTime, o.EndNow = time.Hour, hurry
	})
	s.awaitReady(t)
	conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	require.NoError(t, err)
	defer conn.Close()
	say(t, conn, "hello")
	s.end()
	s.await(t, "ending Envoy")
	hurry <- syscall.SIGTERM
	s.await(t, "asked to end at once: connections are cut")
	require.NoError(t, <-s.result)
}

func TestDrainWithoutEndingEnvoy(t *testing.T) {
	t.Parallel()
	const closing = time.Second // when Envoy closes what it drains by itself
	s, port := surfed(t, func(o *supervise.Options) { o.Args = append(o.Args, "--drain-time-s", "1") })
	conn, reader := browse(t, port)
	for range 2 { // it can be repeated
		require.NoError(t, s.Drain(t.Context()))
	}
	require.Error(t, s.Ready(t.Context()), "load balancers send nobody any more")
	require.True(t, ask(t, conn, reader))
	began := time.Now()
	require.Eventually(t, func() bool {
		conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		require.NoError(t, err, "who comes nevertheless is served, for as long as the drain lasts")
		defer conn.Close()
		require.True(t, ask(t, conn, bufio.NewReader(conn)))
		return time.Since(began) > 2*closing
	}, 10*time.Second, 50*time.Millisecond)

	for range 2 {
		require.NoError(t, s.Undrain(t.Context()))
	}
	require.NoError(t, s.Ready(t.Context()))
	conn, reader = browse(t, port)
	require.False(t, ask(t, conn, reader), "clients stay")
	s.end()
	require.NoError(t, <-s.result)
}

func TestAnEnvoyInPlaceOfADrainedOneDrains(t *testing.T) {
	t.Parallel()
	s, port := surfed(t, unchanged)
	require.NoError(t, s.Drain(t.Context()))
	require.NoError(t, syscall.Kill(s.Status().PID, syscall.SIGKILL))
	s.await(t, "Envoy died")
	s.await(t, "Envoy started")
	require.Eventually(t, func() bool {
		err := s.Ready(t.Context())
		return err != nil && strings.Contains(err.Error(), "DRAINING")
	}, 20*time.Second, 10*time.Millisecond)
	require.NoError(t, s.Undrain(t.Context()))
	s.awaitReady(t)
	browse(t, port)
	s.end()
	require.NoError(t, <-s.result)
}
