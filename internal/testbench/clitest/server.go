package clitest

import (
	"context"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/listen"
	"github.com/pgmesh/pgmesh/mcp-server/serve"
)

// Launch starts any server. It returns its address, and the function that ends it.
func Launch(t *testing.T, o serve.Options) (address string, stop func()) {
	t.Helper()
	o.Listen, o.HTTP.Address, o.Plaintext, o.Log = "127.0.0.1:0", "127.0.0.1:0", listen.Plaintext{Allowed: true}, slog.New(slog.DiscardHandler)
	ctx, cancel := context.WithCancel(context.Background())
	started, ended := make(chan serve.Addresses, 1), make(chan error, 1)
	go func() { ended <- serve.Run(ctx, o, func(a serve.Addresses) { started <- a }) }()
	stop = func() {
		cancel()
		require.NoError(t, <-ended)
		ended <- nil
	}
	t.Cleanup(stop)
	select {
	case a := <-started:
		return a.MCP.String(), stop
	case err := <-ended:
		ended <- err
		t.Fatalf("starting the server: %v", err)
		return "", nil
	}
}

// At runs a command with a server.
func At(t *testing.T, address string, args ...string) Result {
	t.Helper()
	return Run(t.Context(), "", nil, append(args, "--server", address, "--insecure")...)
}
