package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/pgmesh/pgmesh/identity"
	"github.com/pgmesh/pgmesh/identity/authority"
	"github.com/pgmesh/pgmesh/internal/kit/freeport"
	"github.com/pgmesh/pgmesh/internal/kit/wait"
	"github.com/pgmesh/pgmesh/internal/testbench/stack"
	"github.com/pgmesh/pgmesh/mesh-agent/status"
	"github.com/pgmesh/pgmesh/store/embedded"
)

// mesh is the control plane with two machines, of which one calls the other.
type mesh struct {
	options  *options
	dir      string
	ca       *callers
	postgres *embedded.Server
	stack    *stack.Stack
	app      *app
	port     int // of the service: at the server's own address, and on loopback at the client
	server   *machine
	client   *machine
}

// machine is a machine with its Envoy.
type machine struct {
	agent *stack.Program
	envoy int    // its process
	log   string // its file of access logs
}

const (
	trustDomain = "cluster.local"
	host        = "api.payments.mesh"
	// serverIP is the address of the serving machine. The client's is 127.0.0.1.
	serverIP = "127.0.0.2"
	clientIP = "127.0.0.1"
	// waitTimeout bounds every wait for the mesh.
	waitTimeout = 5 * time.Minute
	// countTimeout bounds how long Envoy takes to count and to log: it writes logs each second.
	countTimeout = 10 * time.Second
)

func startMesh(ctx context.Context, o *options) (m *mesh, err error) {
	m = &mesh{options: o}
	if m.dir, err = os.MkdirTemp("/tmp", "pgmesh-metrics-"); err != nil { // the paths of sockets are limited in length
		return nil, err
	}
	if err := m.start(ctx); err != nil {
		m.stop()
		return nil, err
	}
	return m, nil
}

func (m *mesh) start(ctx context.Context) (err error) {
	if m.ca, err = newCallers(m.dir); err != nil {
		return err
	}
	if m.postgres, err = embedded.Start(ctx, embedded.Options{DataDir: filepath.Join(m.dir, "postgres")}); err != nil {
		return err
	}
	if m.stack, err = stack.NewSecure(m.options.bin, m.dir, m.postgres.URL(), &m.ca.files); err != nil {
		return err
	}
	if err := m.stack.Start(ctx); err != nil {
		return err
	}
	if m.port, err = freeport.New(); err != nil {
		return err
	}
	if m.app, err = startApp(); err != nil {
		return err
	}
	if err := m.apply(ctx, m.resources()+m.sidecar(ports{m.port, 1})); err != nil {
		return err
	}
	if m.server, err = m.join(ctx, "payments/api", "api", "--labels", "app=api,version=v1", "--node-ip", serverIP); err != nil {
		return err
	}
	if m.client, err = m.join(ctx, "shop/teller", "web", "--labels", "app=web,version=v1", "--node-ip", clientIP); err != nil {
		return err
	}
	return m.introduce(ctx)
}

// introduce waits until both machines have certificates that say what metrics call them. They renew
// theirs when they first count something, which would be amid the measurements.
func (m *mesh) introduce(ctx context.Context) error {
	if err := m.enter(ctx, modes[1]); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, waitTimeout)
	defer cancel()
	for _, name := range []string{"api", "web"} {
		for !m.introduced(name) {
			if !wait.For(ctx, countInterval) {
				return fmt.Errorf("the certificate of %s does not say what metrics call it: %w", name, ctx.Err())
			}
		}
	}
	return nil
}

func (m *mesh) introduced(name string) bool {
	text, err := os.ReadFile(filepath.Join(m.stack.State(name), "identity.pem"))
	if err != nil {
		return false
	}
	chain, err := authority.ParseCertificates(text)
	return err == nil && identity.AliasOf(chain[0]) != ""
}

func (m *mesh) apply(ctx context.Context, resources string, flags ...string) error {
	if out, err := m.stack.Client(ctx, resources, append([]string{"apply", "-f", "-"}, flags...)...); err != nil {
		return fmt.Errorf("describe the mesh: %w\n%s", err, out)
	}
	return nil
}

// resources are a service with one machine, and what the mesh is told.
func (m *mesh) resources() string {
	return fmt.Sprintf(`
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: api, namespace: payments}
spec:
  hosts: [%[1]s]
  ports: [{number: %[2]d, name: http, protocol: HTTP}]
  location: MESH_INTERNAL
  resolution: STATIC
  endpoints: [{address: %[3]s, serviceAccount: api, labels: {app: api, version: v1}}]
---
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: default, namespace: istio-system}
spec: {mtls: {mode: STRICT}}
---
apiVersion: core/v1alpha1
kind: MeshConfig
metadata: {name: mesh, namespace: istio-system}
spec:
  extensionProviders:
  - {name: payments, envoyFileAccessLog: {path: %[4]s}}
  - {name: shop, envoyFileAccessLog: {path: %[5]s}}
`, host, m.port, serverIP, m.logOf("api"), m.logOf("web"))
}

// ports follow one another.
type ports struct{ first, number int }

// sidecar has the server's Envoy take requests on some ports.
func (m *mesh) sidecar(taken ...ports) string {
	var text strings.Builder
	text.WriteString(`---
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: api, namespace: payments}
spec:
  egress: [{hosts: ['~/*']}]
  ingress:
`)
	for _, p := range taken {
		for i := range p.number {
			fmt.Fprintf(&text, "  - {port: {number: %d, name: http, protocol: HTTP}, bind: %s, defaultEndpoint: '127.0.0.1:%d'}\n", p.first+i, serverIP, m.app.port())
		}
	}
	return text.String()
}

func (m *mesh) logOf(name string) string { return filepath.Join(m.dir, name+".access.log") }

// join starts a machine, and waits until its Envoy is ready. What a change replaces has to go soon:
// connections over it would not be measured.
func (m *mesh) join(ctx context.Context, identity, name string, flags ...string) (*machine, error) {
	ctx, cancel := context.WithTimeout(ctx, waitTimeout)
	defer cancel()
	token, err := m.stack.JoinToken(ctx, identity)
	if err != nil {
		return nil, err
	}
	agent, err := m.stack.Member(m.options.envoy, name, token, append([]string{
		"--drain-time", "0s", "--listener-drain-time", "1s", "--file-flush-interval", "1s", "--concurrency", fmt.Sprint(m.options.workers),
	}, flags...)...)
	if err != nil {
		return nil, err
	}
	if err := agent.Start(); err != nil {
		return nil, err
	}
	one := &machine{agent: agent, log: m.logOf(name)}
	if err := agent.Ready(ctx); err != nil {
		return one, err
	}
	one.envoy, err = m.envoyOf(ctx, name)
	return one, err
}

// envoyOf is the process of a machine's Envoy.
func (m *mesh) envoyOf(ctx context.Context, name string) (pid int, err error) {
	out, err := m.stack.Run(ctx, "mesh-agent", "status", "-o", "json", "--state-dir", m.stack.State(name))
	if err != nil {
		return 0, fmt.Errorf("ask for the status: %w\n%s", err, out)
	}
	var found status.Report
	if err := json.Unmarshal([]byte(out), &found); err != nil || found.Envoy == nil || found.Envoy.PID <= 0 {
		return 0, fmt.Errorf("the status names no Envoy: %w\n%s", err, out)
	}
	return found.Envoy.PID, nil
}

// through is the way through both Envoys.
func (m *mesh) through() target { return target{address: at(clientIP, m.port), host: host} }

// beside is the way without any Envoy.
func (m *mesh) beside() target { return target{address: m.app.Addr().String(), host: host} }

func at(ip string, port int) string { return net.JoinHostPort(ip, fmt.Sprint(port)) }

// stop stops everything.
func (m *mesh) stop() {
	for _, one := range []*machine{m.client, m.server} {
		if one != nil {
			one.agent.Stop()
		}
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
