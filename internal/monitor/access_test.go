package monitor_test

import (
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/monitor"
)

// elsewhere is a listener whose connections seem to arrive at an address other than loopback.
type elsewhere struct{ net.Listener }

type fromElsewhere struct{ net.Conn }

func (l elsewhere) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	return fromElsewhere{conn}, err
}

func (fromElsewhere) LocalAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 80} }

// pagesAt serves a page on a listener and returns a function that requests paths.
func pagesAt(t *testing.T, access monitor.Access, wrap func(net.Listener) net.Listener) func(path, host, token string) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- monitor.Serve(ctx, wrap(l), access, prometheus.NewRegistry(), ready, page("/debug/secrets", "Shows them.", "told"))
	}()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	return func(path, host, token string) int {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+l.Addr().String()+path, http.NoBody)
		require.NoError(t, err)
		request.Host = host
		if token != "" {
			request.Header.Set("Authorization", "Bearer "+token)
		}
		response, err := client.Do(request)
		require.NoError(t, err)
		defer response.Body.Close()
		return response.StatusCode
	}
}

// A site that points its name to 127.0.0.1 (DNS rebinding) can read nothing.
func TestLoopbackPagesRefuseForeignHosts(t *testing.T) {
	t.Parallel()
	own, err := os.Hostname()
	require.NoError(t, err)
	get := pagesAt(t, monitor.Access{}, func(l net.Listener) net.Listener { return l })
	for _, host := range []string{"localhost", "LOCALHOST:15014", "127.0.0.1", "[::1]:80", "192.0.2.1", own} {
		require.Equal(t, http.StatusOK, get("/debug/secrets", host, ""), host)
	}
	for _, host := range []string{"evil.example", "localhost.evil.example", "127.0.0.1.evil.example:15014", "evil"} {
		for _, path := range []string{"/debug/secrets", "/debug", "/metrics", "/nothing"} {
			require.Equal(t, http.StatusForbidden, get(path, host, ""), "%s of %s", path, host)
		}
		require.Equal(t, http.StatusOK, get("/readyz", host, ""), "health checks may use any name")
	}
}

func TestRemotePagesNeedAToken(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "token")
	write := func(token string) { require.NoError(t, os.WriteFile(file, []byte(token+"\n"), 0o600)) }
	write("0123456789abcdef")
	from := func(l net.Listener) net.Listener { return elsewhere{l} }
	with, without := pagesAt(t, monitor.Access{TokenFile: file}, from), pagesAt(t, monitor.Access{}, from)
	for _, path := range []string{"/healthz", "/readyz", "/metrics"} {
		require.Equal(t, http.StatusOK, with(path, "pgmesh.example", ""))
		require.Equal(t, http.StatusOK, without(path, "pgmesh.example", ""))
	}
	for _, path := range []string{"/debug/secrets", "/debug", "/nothing"} {
		require.Equal(t, http.StatusUnauthorized, with(path, "pgmesh.example", ""))
		require.Equal(t, http.StatusUnauthorized, with(path, "127.0.0.1", "fedcba9876543210"), "the Host header must not count as loopback")
		require.Equal(t, http.StatusUnauthorized, without(path, "pgmesh.example", "0123456789abcdef"))
	}
	require.Equal(t, http.StatusOK, with("/debug/secrets", "pgmesh.example", "0123456789abcdef"))
	write("another-0123456789abcdef")
	require.Equal(t, http.StatusUnauthorized, with("/debug/secrets", "pgmesh.example", "0123456789abcdef"))
	require.Equal(t, http.StatusOK, with("/debug/secrets", "pgmesh.example", "another-0123456789abcdef"))
	write("")
	require.Equal(t, http.StatusUnauthorized, with("/debug/secrets", "pgmesh.example", ""), "an empty file lets nobody in")
}

func TestShortTokensAreRefused(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "token")
	require.ErrorContains(t, monitor.Access{TokenFile: file}.Check(), "no such file")
	require.NoError(t, os.WriteFile(file, []byte("secret"), 0o600))
	require.ErrorContains(t, monitor.Access{TokenFile: file}.Check(), "16 characters at least")
	require.NoError(t, monitor.Access{}.Check())
}
