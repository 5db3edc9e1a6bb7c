// Package servetest runs a whole discovery within a test, which talks to it over the network as
// proxies and people do.
package servetest

import (
	"cmp"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/discovery/serve"
	"github.com/pgmesh/pgmesh/internal/ads"
	"github.com/pgmesh/pgmesh/internal/listen"
)

// Start starts a discovery without TLS on free ports of loopback. It ends with the test, which
// fails if discovery does.
func Start(t testing.TB, sources serve.Sources, limits ads.Limits) serve.Addresses {
	t.Helper()
	at, _ := Run(t, serve.Options{RoutesByHost: 1, ReportProxies: true, Sources: sources, Plaintext: listen.Plaintext{Allowed: true}, Limits: limits})
	return at
}

// Member returns the options of a discovery that joins an authority's mesh with a token, and keeps
// its state in a folder.
func Member(t testing.TB, a *Authority, folder string) serve.Options {
	t.Helper()
	token := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(token, []byte(a.Token(1, nil)), 0o600))
	return serve.Options{
		ReportProxies: true,
		RoutesByHost:  1, Sources: serve.Sources{MCP: serve.MCP{Addresses: []string{a.Address}}},
		Identity: serve.Identity{JoinTokenFile: token, StateDir: folder, Name: "test"},
	}
}

// Run starts a discovery with some options, on free ports of loopback unless they name ports. It
// ends with the test, or when it is stopped.
func Run(t testing.TB, o serve.Options) (at serve.Addresses, stop func()) {
	t.Helper()
	o.Listen, o.HTTP.Address = "127.0.0.1:0", cmp.Or(o.HTTP.Address, "127.0.0.1:0")
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	ctx, cancel := context.WithCancel(context.Background())
	started, ended := make(chan serve.Addresses, 1), make(chan error, 1)
	go func() { ended <- serve.Run(ctx, o, func(a serve.Addresses) { started <- a }) }()
	select {
	case at = <-started:
	case err := <-ended:
		cancel()
		t.Fatalf("discovery does not start: %v", err)
	}
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("discovery ended: %v", err)
		}
	})
	t.Cleanup(stop)
	return at, stop
}
