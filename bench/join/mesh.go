package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/pgmesh/pgmesh/internal/testbench/realenvoy"
	"github.com/pgmesh/pgmesh/internal/testbench/stack"
	"github.com/pgmesh/pgmesh/store/embedded"
)

// mesh is everything that exists before a machine joins: the control plane, and a machine that
// serves.
type mesh struct {
	options  *options
	dir      string
	postgres *embedded.Server
	stack    *stack.Stack
	app      *httptest.Server
	server   *stack.Program
	port     int // of the service: at the server's own address, and on loopback at a client
	client   *http.Client
}

const (
	host = "api.payments.mesh"
	// serverIP is the address of the serving machine. A client's is 127.0.0.1.
	serverIP = "127.0.0.2"
	// waitTimeout bounds every wait.
	waitTimeout = 30 * time.Second
)

func startMesh(ctx context.Context, o *options) (m *mesh, err error) {
	// Each request uses a new connection, like the first request of an application.
	m = &mesh{options: o, client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Second}}
	if m.dir, err = os.MkdirTemp("/tmp", "pgmesh-join-"); err != nil { // the paths of sockets are limited in length
		return nil, err
	}
	if err := m.start(ctx); err != nil {
		m.stop()
		return nil, err
	}
	return m, nil
}

func (m *mesh) start(ctx context.Context) (err error) {
	bin := m.options.bin
	if bin == "" {
		bin = m.dir
		fmt.Fprintln(os.Stderr, "building the programs …")
		if err := stack.Build(ctx, bin, "mcp-server", "mcp-client", "discovery", "mesh-agent"); err != nil {
			return err
		}
	}
	// As in production, Postgres commits to the disk.
	if m.postgres, err = embedded.Start(ctx, embedded.Options{DataDir: filepath.Join(m.dir, "postgres")}); err != nil {
		return err
	}
	if m.stack, err = stack.NewSecure(bin, m.dir, m.postgres.URL(), nil); err != nil {
		return err
	}
	if err := m.stack.Start(ctx); err != nil {
		return err
	}
	if m.port, err = realenvoy.FreePort(); err != nil {
		return err
	}
	m.app = httptest.NewServer(http.HandlerFunc(answer))
	if out, err := m.stack.Client(ctx, m.resources(), "apply", "-f", "-"); err != nil {
		return fmt.Errorf("describe the mesh: %w\n%s", err, out)
	}
	return m.serve(ctx)
}

// answer returns the identity that the server's Envoy read from the client's certificate.
func answer(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintln(w, r.Header.Get("X-Forwarded-Client-Cert"))
}

// resources returns the resources of docs/machines.md, with addresses on one machine instead of
// two.
func (m *mesh) resources() string {
	return fmt.Sprintf(`
apiVersion: networking.istio.io/v1
kind: WorkloadGroup
metadata: {name: api, namespace: payments}
spec:
  metadata: {labels: {app: api}}
  template: {serviceAccount: api, ports: {http: %[1]d}}
  probe: {periodSeconds: 1, httpGet: {path: /, port: %[2]d, host: 127.0.0.1}}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: api, namespace: payments}
spec:
  hosts: [%[3]s]
  ports: [{number: %[1]d, name: http, protocol: HTTP}]
  location: MESH_INTERNAL
  resolution: STATIC
  workloadSelector: {labels: {app: api}}
---
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: api, namespace: payments}
spec:
  workloadSelector: {labels: {app: api}}
  egress: [{hosts: ['~/*']}]
  ingress: [{port: {number: %[1]d, name: http, protocol: HTTP}, bind: %[4]s, defaultEndpoint: '127.0.0.1:%[2]d'}]
---
apiVersion: networking.istio.io/v1
kind: WorkloadGroup
metadata: {name: web, namespace: shop}
spec:
  metadata: {labels: {app: web}}
  template: {serviceAccount: web}
---
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: default, namespace: istio-system}
spec: {mtls: {mode: STRICT}}
`, m.port, m.app.Listener.Addr().(*net.TCPAddr).Port, host, serverIP)
}

// serve lets the server join, and waits until its Envoy listens on the service's port.
func (m *mesh) serve(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, waitTimeout)
	defer cancel()
	token, err := m.stack.GroupToken(ctx, "payments/api")
	if err != nil {
		return err
	}
	m.server, err = m.agent(ctx, "api", token, "--node-ip", serverIP)
	if err != nil {
		return err
	}
	if err := m.server.Start(); err != nil {
		return err
	}
	if err := m.server.Ready(ctx); err != nil {
		return err
	}
	return m.refusesPlaintext(ctx)
}

// agent lets a machine join with a token, and prepares its agent.
func (m *mesh) agent(ctx context.Context, name, token string, flags ...string) (*stack.Program, error) {
	if out, err := m.stack.Run(ctx, "mesh-agent", "join", "--server", m.stack.XDS, "--token", token, "--state-dir", m.stack.State(name)); err != nil {
		return nil, fmt.Errorf("%s does not join: %w\n%s", name, err, out)
	}
	return m.stack.Member(m.options.envoy, name, token, append([]string{"--drain-time", "0s"}, flags...)...)
}

// refusesPlaintext checks that a client without a certificate gets no answer, to be sure that
// mutual TLS is measured.
func (m *mesh) refusesPlaintext(ctx context.Context) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", m.at(serverIP))
	if err != nil {
		return fmt.Errorf("the server's Envoy has not opened the port of the service: %w\n%s", err, m.server.Log())
	}
	conn.Close()
	if who, err := m.ask(ctx, serverIP); err == nil {
		return fmt.Errorf("the server's Envoy answers who has no certificate (%q)", who)
	}
	return nil
}

func (m *mesh) at(ip string) string { return fmt.Sprintf("%s:%d", ip, m.port) }

// stop stops everything. The server goes first, so that it can leave the registry.
func (m *mesh) stop() {
	if m.server != nil {
		m.server.Stop()
	}
	if m.app != nil {
		m.app.Close()
	}
	if m.stack != nil {
		m.stack.Stop()
	}
	if m.postgres != nil {
		m.postgres.Stop()
	}
	os.RemoveAll(m.dir)
}

// ask sends one request to the service's port, and returns the client's identity as the application
// sees it.
func (m *mesh) ask(ctx context.Context, ip string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+m.at(ip)+"/", nil)
	if err != nil {
		return "", err
	}
	request.Host = host
	response, err := m.client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", response.Status, body)
	}
	return strings.TrimSpace(string(body)), err
}
