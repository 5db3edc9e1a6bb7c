package cli_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/pgmesh/pgmesh/internal/listen"
	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/mcp-client/cli"
	"github.com/pgmesh/pgmesh/mcp-client/mcp"
	"github.com/pgmesh/pgmesh/mcp-server/serve"
)

// actAsProgram is the variable that makes the test binary act as mcp-client, so that a shell can run it.
const actAsProgram = "PGMESH_TEST_ACT_AS_MCP_CLIENT"

func TestMain(m *testing.M) {
	if os.Getenv(actAsProgram) != "" {
		program := cli.Program{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Getenv: os.Getenv}
		os.Exit(program.Run(context.Background(), os.Args[1:]))
	}
	os.Exit(pgtest.VerifyMain(m))
}

// mesh is a running mcp-server on its own database.
type mesh struct {
	t        *testing.T
	database string
	address  string
	stop     func()
}

// start starts a server on a database of its own.
func start(t *testing.T) *mesh {
	t.Helper()
	m := of(t)
	m.serve()
	return m
}

// of is a mesh on a database of its own, without a server.
func of(t *testing.T) *mesh {
	t.Helper()
	return &mesh{t: t, database: pgtest.New(t), address: "127.0.0.1:0"}
}

// replica starts another server on the database of the mesh.
func (m *mesh) replica() *mesh {
	m.t.Helper()
	other := &mesh{t: m.t, database: m.database, address: "127.0.0.1:0"}
	other.serve()
	return other
}

// serve starts the server, at its previous address if it had one.
func (m *mesh) serve() {
	m.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	started, ended := make(chan serve.Addresses, 1), make(chan error, 1)
	go func() {
		ended <- serve.Run(ctx, serve.Options{
			Database: m.database, Listen: m.address, HTTP: "127.0.0.1:0", Plaintext: listen.Plaintext{Allowed: true},
			Log: slog.New(slog.DiscardHandler),
		}, func(a serve.Addresses) { started <- a })
	}()
	m.stop = func() {
		cancel()
		require.NoError(m.t, <-ended)
		ended <- nil
	}
	m.t.Cleanup(m.stop)
	select {
	case a := <-started:
		m.address = a.MCP.String()
	case err := <-ended:
		m.t.Fatalf("starting the server: %v", err)
	}
}

// result is the result of a command.
type result struct {
	code     int
	out, err string
}

// run runs a command with the server of the mesh.
func (m *mesh) run(args ...string) result {
	m.t.Helper()
	return m.pipe("", args...)
}

// pipe runs a command with standard input.
func (m *mesh) pipe(in string, args ...string) result {
	m.t.Helper()
	return run(m.t.Context(), in, nil, append(args, "--server", m.address, "--insecure")...)
}

// ok runs a command that must succeed and returns its output.
func (m *mesh) ok(args ...string) string {
	m.t.Helper()
	r := m.run(args...)
	require.Zero(m.t, r.code, r.err)
	return r.out
}

func run(ctx context.Context, in string, env map[string]string, args ...string) result {
	var out, err bytes.Buffer
	program := cli.Program{In: strings.NewReader(in), Out: &out, Err: &err, Getenv: func(name string) string { return env[name] }}
	code := program.Run(ctx, args)
	return result{code, out.String(), err.String()}
}

// runTo runs a command with another output.
func runTo(ctx context.Context, out io.Writer, args ...string) result {
	var err bytes.Buffer
	program := cli.Program{In: strings.NewReader(""), Out: out, Err: &err, Getenv: func(string) string { return "" }}
	return result{code: program.Run(ctx, args), err: err.String()}
}

// apply applies documents, which must succeed, and waits until the server serves them.
func (m *mesh) apply(documents string) {
	m.t.Helper()
	r := m.pipe(documents, "apply", "-f", "-")
	require.Zero(m.t, r.code, r.err)
	var revision int64
	_, err := fmt.Sscanf(r.out[strings.LastIndex(r.out, "revision"):], "revision %d", &revision)
	require.NoError(m.t, err, r.out)
	m.await(revision)
}

// await waits until the server serves a revision.
func (m *mesh) await(revision int64) {
	m.t.Helper()
	ctx, reached := context.WithCancel(m.t.Context())
	defer reached()
	client := mcp.New(mcp.Config{
		Targets: []string{m.address}, Name: "test", DialOptions: []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())},
	})
	err := client.Run(ctx, func(b mcp.Batch) error {
		if b.Revision >= revision {
			reached()
		}
		return nil
	})
	require.ErrorIs(m.t, err, context.Canceled)
}

// execute runs SQL like psql.
func (m *mesh) execute(sql string) {
	m.t.Helper()
	conn, err := pgx.Connect(m.t.Context(), m.database)
	require.NoError(m.t, err)
	_, err = conn.Exec(m.t.Context(), sql)
	require.NoError(m.t, err)
	require.NoError(m.t, conn.Close(m.t.Context()))
}

// query runs SQL that returns one value.
func (m *mesh) query(sql string, into any) {
	m.t.Helper()
	conn, err := pgx.Connect(m.t.Context(), m.database)
	require.NoError(m.t, err)
	require.NoError(m.t, conn.QueryRow(m.t.Context(), sql).Scan(into))
	require.NoError(m.t, conn.Close(m.t.Context()))
}

func (m *mesh) stored() (n int) {
	m.t.Helper()
	m.query("SELECT count(*) FROM mesh.resources", &n)
	return n
}

// folder writes files to a new folder.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	return dir
}

// virtualService is a VirtualService that routes one host to another.
func virtualService(namespace, name, to string) string {
	return fmt.Sprintf(`apiVersion: networking.istio.io/v1
kind: VirtualService
metadata:
  name: %s
  namespace: %s
  labels:
    app: %s
spec:
  hosts:
  - %s.example.com
  http:
  - route:
    - destination:
        host: %s
      weight: 100
`, name, namespace, name, name, to)
}

const both = "---\n"
