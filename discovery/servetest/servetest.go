// Package servetest runs a whole discovery within a test, which asks it over the network as proxies and people do.
package servetest

import (
	"context"
	"log/slog"
	"testing"

	"github.com/pgmesh/pgmesh/discovery/serve"
	"github.com/pgmesh/pgmesh/internal/ads"
	"github.com/pgmesh/pgmesh/internal/listen"
)

// Start starts a discovery on free ports of the loopback interface. It ends with the test, which fails if it does not end in good order.
func Start(t testing.TB, sources serve.Sources, limits ads.Limits) serve.Addresses {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	started, ended := make(chan serve.Addresses, 1), make(chan error, 1)
	go func() {
		ended <- serve.Run(ctx, serve.Options{
			RoutesByHost: 1,
			Sources:      sources, Listen: "127.0.0.1:0", HTTP: "127.0.0.1:0", Plaintext: listen.Plaintext{Allowed: true},
			Log: slog.New(slog.DiscardHandler), Limits: limits,
		}, func(a serve.Addresses) { started <- a })
	}()
	var at serve.Addresses
	select {
	case at = <-started:
	case err := <-ended:
		cancel()
		t.Fatalf("discovery does not start: %v", err)
	}
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("discovery ended: %v", err)
		}
	})
	return at
}
