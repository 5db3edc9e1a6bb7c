package e2e

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/certtest"
	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/internal/testbench/stack"
	"github.com/pgmesh/pgmesh/internal/testbench/storetest"
)

// A server of Postgres is lost, and the mesh goes on from a backup in another one, by the commands of
// the operator's guide. Requests go on all the time.
func TestRestoreFromABackup(t *testing.T) {
	t.Parallel()
	blocks := page(t, "../../../docs/operators-guide.md")["bash"]
	lost, found := pgtest.Server(t), pgtest.Server(t)
	m := secureMeshOn(t, lost.URL, nil, "--cert-lifetime", "12s")
	m.namespace = "edge"
	const client, host = "127.0.0.2", "ledger.mesh"
	m.commit(m.workload("ledger", newPort(t), newBackend(t, "ledger", nil)), m.egressOn("shop", "cart", client, "shop"))
	ledger := m.member("shop/ledger", "ledger", "--labels", "app=ledger")
	cart := m.member("shop/cart", "cart", "--labels", "app=cart", "--node-ip", client)
	m.becomes(client, host, http.StatusOK)
	gate, gateway := m.gate(t)
	gate.answers("shop.example.com", "shop")
	version := func(status int) {
		t.Helper()
		m.commit(fmt.Sprintf(`
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: version, namespace: shop}
spec: {hosts: [version.mesh], ports: [{number: %s, name: http, protocol: HTTP}], resolution: STATIC}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: version, namespace: shop}
spec: {hosts: [version.mesh], http: [{directResponse: {status: %d}}]}
`, m.port, status))
	}
	version(201)
	m.becomes(client, "version.mesh", 201)
	early := m.joinToken("shop/early")
	_, err := m.db.Exec(t.Context(), "CREATE ROLE team; SELECT mesh.grant_namespace('team', 'shop', 'read')")
	require.NoError(t, err)

	b := newBackup(t, m, found)
	b.run(blockWith(t, blocks, "pg_dump "))
	traffic := m.startTrafficAt(net.JoinHostPort(client, m.port), host, 200)

	// After the backup come changes, a machine that joins, the use of a token, and a revocation.
	for status := 202; status < 206; status++ {
		version(status)
	}
	m.becomes(client, "version.mesh", 205)
	till := m.member("shop/till", "till", "--labels", "app=till", "--node-ip", "127.0.0.3")
	_, err = m.join(early, t.TempDir())
	require.NoError(t, err)
	m.identity("revoke", "shop/thief")
	lost.Kill()
	m.MCPServer.Kill()
	require.NoError(t, os.RemoveAll(m.State("mcp-server")))
	require.NoError(t, os.Rename(b.key, m.Key()))
	m.becomes(client, "version.mesh", 205)

	require.Contains(t, b.run(blockWith(t, blocks, "pg_restore ")), "(0 rows)", "the schema is what a migration makes")
	b.run(blockWith(t, blocks, "revoke_join_token"))
	m.needsTheKey(b.to)
	m.moveTo(b.to)
	m.becomes(client, "version.mesh", 201)
	says(t, m.Discovery.Log, "the mesh went back to an older revision: .* revision=4 seen=8")
	m.renews(ledger, cart, till)
	m.recorded(1, "identity = 'spiffe://cluster.local/ns/shop/sa/till' AND refusal IS NULL")
	eventually(t, func(ctx context.Context) error {
		var running int
		err := m.db.QueryRow(ctx, "SELECT count(*) FROM mesh.proxies WHERE state = 'synced' AND runs = 4").Scan(&running)
		if err == nil && running != 4 {
			err = fmt.Errorf("%d of 4 proxies run what was restored", running)
		}
		return err
	})

	// Neither comes in again who has the token that was used after the backup, nor who was revoked then.
	out, err := m.join(early, t.TempDir())
	require.Error(t, err, out)
	require.Contains(t, out, "revoked")
	var revoked, reads bool
	require.NoError(t, m.db.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM mesh.revocations WHERE identity = 'ns/shop/sa/thief' AND lifted_at IS NULL),
		has_table_privilege('team', 'mesh.resources', 'SELECT') AND EXISTS (SELECT FROM mesh.grants WHERE role = 'team' AND namespace = 'shop')`).Scan(&revoked, &reads))
	require.True(t, revoked)
	require.True(t, reads, "roles keep what they were granted")

	// The keys are there: the gateway that starts anew has its certificate, and a machine can join.
	gate.answers("shop.example.com", "shop")
	gateway.Stop()
	require.NoError(t, gateway.Start())
	gate.answers("shop.example.com", "shop")
	m.member("shop/new", "new", "--node-ip", "127.0.0.4")
	version(206)
	m.becomes(client, "version.mesh", 206)
	_, failure := traffic.end()
	t.Logf("%d requests", traffic.sent.Load())
	require.Empty(t, failure)
}

// needsTheKey starts a server with another key than what a database is sealed with.
func (m *secureMesh) needsTheKey(database string) {
	m.t.Helper()
	other, err := m.Run(m.t.Context(), "mcp-server", "secrets", "key")
	require.NoError(m.t, err)
	file := filepath.Join(m.t.TempDir(), "other.key")
	require.NoError(m.t, os.WriteFile(file, []byte(other), 0o600))
	out, err := m.Run(m.t.Context(), "mcp-server", "run", "--database", database, "--secrets-key-file", file,
		"--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--api", "", "--state-dir", "")
	require.Error(m.t, err)
	require.Regexp(m.t, "is sealed with the key .*, which this server does not have", out)
}

// moveTo starts mcp-server on another database.
func (m *secureMesh) moveTo(database string) {
	m.t.Helper()
	m.MoveTo(database)
	require.NoError(m.t, m.MCPServer.Start())
	ctx, cancel := context.WithTimeout(m.t.Context(), longestWait)
	defer cancel()
	require.NoError(m.t, m.MCPServer.Ready(ctx))
	db, err := pgxpool.New(m.t.Context(), database)
	require.NoError(m.t, err)
	m.t.Cleanup(db.Close)
	m.db = db
}

// gate is a gateway with a certificate from the database.
func (m *secureMesh) gate(t *testing.T) (customer, *stack.Program) {
	t.Helper()
	authority := certtest.NewAuthority(t)
	_, cert, key := certified(t, authority, "shop.example.com")
	out, err := m.Client(t.Context(), "", "secret", "create", "tls", "shop", "-n", "edge", "--cert", cert, "--key", key, "--service-account", "gate")
	require.NoError(t, err, out)
	port := newPort(t)
	m.commit(fmt.Sprintf(`
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: gate, namespace: edge}
spec:
  selector: {app: gate}
  servers: [{port: {number: %s, name: https, protocol: HTTPS}, hosts: [shop.example.com], tls: {mode: SIMPLE, credentialName: shop}}]
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: gate, namespace: edge}
spec: {hosts: [shop.example.com], gateways: [gate], http: [{route: [{destination: {host: shop.mesh}}]}]}
`, port), m.service("shop.mesh", newBackend(t, "shop", nil)))
	p := m.member("edge/gate", "gate", "--role", "gateway", "--labels", "app=gate")
	return customer{m: m.mesh, port: port, tls: &tls.Config{RootCAs: authority.Pool(), MinVersion: tls.VersionTLS12}}, p
}

// backup runs the commands of the page.
type backup struct {
	t   *testing.T
	env []string
	to  string // the database that is restored
	key string // the copy of the key
}

func newBackup(t *testing.T, m *secureMesh, into *pgtest.OwnServer) *backup {
	t.Helper()
	u, err := url.Parse(into.URL)
	require.NoError(t, err)
	u.Path = "/mesh"
	dumps, keys := t.TempDir(), t.TempDir()
	programs := filepath.Dir(storetest.Connect(t, into.URL).Program("pg_dumpall"))
	return &backup{t: t, to: u.String(), key: filepath.Join(keys, "secrets.key"), env: append(os.Environ(),
		"DATABASE="+m.db.Config().ConnString(), "SECRETS_KEY="+m.Key(), "BACKUP="+dumps, "KEYS="+keys, "NEW_SERVER="+into.URL, "NEW_DATABASE="+u.String(),
		"PATH="+strings.Join([]string{bin, programs, os.Getenv("PATH")}, ":"))}
}

func (b *backup) run(commands string) string {
	b.t.Helper()
	cmd := exec.CommandContext(b.t.Context(), "bash", "-euo", "pipefail", "-c", commands)
	cmd.Env = b.env
	out, err := cmd.CombinedOutput()
	require.NoError(b.t, err, string(out))
	return string(out)
}
