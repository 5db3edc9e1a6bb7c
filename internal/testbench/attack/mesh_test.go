package attack

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/envoytest"
	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/internal/testbench/poll"
	"github.com/pgmesh/pgmesh/internal/testbench/stack"
)

// mesh is a control plane with mutual TLS, on a database that tenants share.
type mesh struct {
	*stack.Stack
	t        testing.TB
	database string
	owner    *pgx.Conn
}

// newMesh starts a control plane. The function may add flags before.
func newMesh(t testing.TB, prepare ...func(*stack.Stack)) *mesh {
	t.Helper()
	database := pgtest.New(t)
	control, err := stack.NewSecure(bin, t.TempDir(), database, nil)
	require.NoError(t, err)
	for _, p := range prepare {
		p(control)
	}
	t.Cleanup(func() {
		control.Stop()
		if t.Failed() {
			t.Logf("mcp-server's log:\n%s\ndiscovery's log:\n%s", control.MCPServer.Log(), control.Discovery.Log())
		}
	})
	require.NoError(t, control.Start(t.Context()))
	return &mesh{Stack: control, t: t, database: database, owner: connect(t, database)}
}

// tenant connects as a role that may write to namespaces. Without namespaces it is a stranger, who
// may connect and nothing else.
func (m *mesh) tenant(name string, namespaces ...string) *pgx.Conn {
	m.t.Helper()
	return connect(m.t, m.login(name, namespaces...))
}

// login creates that role, and returns the URL that it connects with.
func (m *mesh) login(name string, namespaces ...string) string {
	m.t.Helper()
	c := m.owner.Config()
	role := c.Database + "_" + name
	m.sql("CREATE ROLE " + role + " LOGIN PASSWORD 'secret'")
	m.t.Cleanup(func() {
		_, err := m.owner.Exec(context.Background(), "DROP OWNED BY "+role+"; DROP ROLE "+role)
		require.NoError(m.t, err)
	})
	for _, namespace := range namespaces {
		m.sql("SELECT mesh.grant_namespace($1, $2, 'write')", role, namespace)
	}
	login := pgtest.Login{Host: c.Host, Port: c.Port, Database: c.Database, User: role, Password: "secret"}
	return login.URL()
}

// sql runs a statement as the owner.
func (m *mesh) sql(query string, args ...any) {
	m.t.Helper()
	_, err := m.owner.Exec(m.t.Context(), query, args...)
	require.NoError(m.t, err, query)
}

// token creates a bearer token with scopes, and returns its file.
func (m *mesh) token(name string, scopes ...string) (file string) {
	m.t.Helper()
	var args []string
	for _, s := range scopes {
		args = append(args, "--scope", s)
	}
	token, err := m.BearerToken(m.t.Context(), name, args...)
	require.NoError(m.t, err)
	file = filepath.Join(m.t.TempDir(), name)
	require.NoError(m.t, os.WriteFile(file, []byte(token), 0o600))
	return file
}

// readyz is what mcp-server says of itself.
func (m *mesh) readyz() string { return m.page(m.MCPServer.HTTP(), "/readyz") }

// client runs mcp-client as the administrator.
func (m *mesh) client(args ...string) string {
	m.t.Helper()
	out, err := m.Client(m.t.Context(), "", args...)
	require.NoError(m.t, err, out)
	return out
}

// clientOf runs mcp-client with another token, and returns its output.
func (m *mesh) clientOf(token, stdin string, args ...string) (string, error) {
	m.t.Helper()
	return m.Client(m.t.Context(), stdin, append([]string{"--token-file", token}, args...)...)
}

// member starts a machine of an identity, namespace/service-account, with an Envoy.
func (m *mesh) member(identity, name string, flags ...string) *stack.Program {
	m.t.Helper()
	token, err := m.JoinToken(m.t.Context(), identity)
	require.NoError(m.t, err)
	p, err := m.Member(envoytest.Binary(m.t), name, token, append([]string{"--concurrency", "1", "--drain-time", "0s"}, flags...)...)
	require.NoError(m.t, err)
	require.NoError(m.t, p.Start())
	m.t.Cleanup(func() {
		p.Stop()
		if m.t.Failed() {
			m.t.Logf("the log of %s and its Envoy:\n%s", name, p.Log())
		}
	})
	ctx, cancel := context.WithTimeout(m.t.Context(), poll.Longest)
	defer cancel()
	require.NoError(m.t, p.Ready(ctx))
	return p
}

// join makes a machine a member without starting it, and returns the file with its certificate and
// key.
func (m *mesh) join(identity string) (file string) {
	m.t.Helper()
	dir := m.t.TempDir()
	token, err := m.JoinToken(m.t.Context(), identity)
	require.NoError(m.t, err)
	require.NoError(m.t, os.WriteFile(filepath.Join(dir, "token"), []byte(token), 0o600))
	out, err := m.Run(m.t.Context(), "mesh-agent", "join", "--server", m.XDS, "--token-file", filepath.Join(dir, "token"), "--state-dir", filepath.Join(dir, "state"))
	require.NoError(m.t, err, out)
	return filepath.Join(dir, "state", "identity.pem")
}

func connect(t testing.TB, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close(context.Background())) })
	return conn
}

// refused is the error of a statement that is refused.
func refused(t testing.TB, conn *pgx.Conn, sql string, args ...any) string {
	t.Helper()
	_, err := conn.Exec(t.Context(), sql, args...)
	require.Error(t, err, sql)
	return strings.TrimSpace(err.Error())
}
