// Package clitest runs the command line of mcp-client against servers and discoveries, for its
// tests.
package clitest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/pgmesh/pgmesh/internal/listen"
	"github.com/pgmesh/pgmesh/internal/monitor"
	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/cli"
	"github.com/pgmesh/pgmesh/mcp-client/mcp"
	"github.com/pgmesh/pgmesh/mcp-server/serve"
)

// Mesh is a running mcp-server on its own database.
type Mesh struct {
	t        *testing.T
	Database string
	Address  string
	Stop     func()
}

// Start starts a server on a database of its own.
func Start(t *testing.T) *Mesh {
	t.Helper()
	m := New(t)
	m.Serve()
	return m
}

// New returns a mesh with its own database, without a server.
func New(t *testing.T) *Mesh {
	t.Helper()
	return &Mesh{t: t, Database: pgtest.New(t), Address: "127.0.0.1:0"}
}

// Replica starts another server on the database of the mesh.
func (m *Mesh) Replica() *Mesh {
	m.t.Helper()
	other := &Mesh{t: m.t, Database: m.Database, Address: "127.0.0.1:0"}
	other.Serve()
	return other
}

// Serve starts the server, at its previous address if it had one.
func (m *Mesh) Serve() {
	m.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	started, ended := make(chan serve.Addresses, 1), make(chan error, 1)
	go func() {
		ended <- serve.Run(ctx, serve.Options{
			Database: m.Database, Listen: m.Address, HTTP: monitor.Options{Address: "127.0.0.1:0"}, Plaintext: listen.Plaintext{Allowed: true},
			Log: slog.New(slog.DiscardHandler),
		}, func(a serve.Addresses) { started <- a })
	}()
	m.Stop = func() {
		cancel()
		require.NoError(m.t, <-ended)
		ended <- nil
	}
	m.t.Cleanup(m.Stop)
	select {
	case a := <-started:
		m.Address = a.MCP.String()
	case err := <-ended:
		m.t.Fatalf("starting the server: %v", err)
	}
}

// Result is the result of a command.
type Result struct {
	Code     int
	Out, Err string
}

// Run runs a command with the server of the mesh.
func (m *Mesh) Run(args ...string) Result {
	m.t.Helper()
	return m.Pipe("", args...)
}

// Pipe runs a command with standard input.
func (m *Mesh) Pipe(in string, args ...string) Result {
	m.t.Helper()
	return Run(m.t.Context(), in, nil, append(args, "--server", m.Address, "--insecure")...)
}

// OK runs a command that must succeed and returns its output.
func (m *Mesh) OK(args ...string) string {
	m.t.Helper()
	r := m.Run(args...)
	require.Zero(m.t, r.Code, r.Err)
	return r.Out
}

// Run runs a command.
func Run(ctx context.Context, in string, env map[string]string, args ...string) Result {
	var out, err bytes.Buffer
	program := cli.Program{In: strings.NewReader(in), Out: &out, Err: &err, Getenv: func(name string) string { return env[name] }}
	code := program.Run(ctx, args)
	return Result{code, out.String(), err.String()}
}

// RunTo runs a command with another output.
func RunTo(ctx context.Context, out io.Writer, args ...string) Result {
	var err bytes.Buffer
	program := cli.Program{In: strings.NewReader(""), Out: out, Err: &err, Getenv: func(string) string { return "" }}
	return Result{Code: program.Run(ctx, args), Err: err.String()}
}

// Apply applies documents, which must succeed, and waits until the server serves them.
func (m *Mesh) Apply(documents string) {
	m.t.Helper()
	r := m.Pipe(documents, "apply", "-f", "-")
	require.Zero(m.t, r.Code, r.Err)
	var revision int64
	_, err := fmt.Sscanf(r.Out[strings.LastIndex(r.Out, "revision"):], "revision %d", &revision)
	require.NoError(m.t, err, r.Out)
	m.Await(revision)
}

// Await waits until the server serves a revision.
func (m *Mesh) Await(revision int64) {
	m.t.Helper()
	ctx, reached := context.WithCancel(m.t.Context())
	defer reached()
	client := mcp.New(mcp.Config{
		Targets: []string{m.Address}, Name: "test", DialOptions: []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())},
	})
	err := client.Run(ctx, func(b kinds.Batch) error {
		if b.Revision >= revision {
			reached()
		}
		return nil
	})
	require.ErrorIs(m.t, err, context.Canceled)
}
