// Package kubetest gives a test a real Kubernetes API server, with an etcd of its own, and changes
// what it has. There is no kubelet and no controller: a test writes Services, EndpointSlices, Pods and
// Nodes itself.
package kubetest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pgmesh/pgmesh/internal/kit/freeport"
	"github.com/pgmesh/pgmesh/internal/kit/process"
	"github.com/pgmesh/pgmesh/internal/testbench/certtest"
	"github.com/pgmesh/pgmesh/internal/testbench/journal"
	"github.com/pgmesh/pgmesh/internal/testbench/poll"
)

// Cluster is an API server with its etcd, which keeps what it has when it is restarted.
type Cluster struct {
	// Address is host:port of the API server.
	Address string
	// Authority is what vouches for it, and for its clients.
	Authority *certtest.Authority

	t      testing.TB
	folder string
	etcd   *process.Process
	server *process.Process
	log    journal.Journal
	client *http.Client

	etcdFlags, serverFlags []string
}

// Start runs a cluster that ends with the test. It skips the test where KUBE_APISERVER and ETCD name
// no programs.
func Start(t testing.TB, flags ...string) *Cluster {
	t.Helper()
	if os.Getenv("KUBE_APISERVER") == "" || os.Getenv("ETCD") == "" {
		t.Skip("no kube-apiserver and etcd were built: make registries builds them")
	}
	c := &Cluster{t: t, folder: t.TempDir(), Authority: certtest.NewAuthority(t)}
	c.configure(flags)
	t.Cleanup(c.end)
	c.run()
	c.ready()
	return c
}

func (c *Cluster) port() string {
	c.t.Helper()
	port, err := freeport.New()
	if err != nil {
		c.t.Fatal(err)
	}
	return strconv.Itoa(port)
}

func (c *Cluster) configure(more []string) {
	c.t.Helper()
	etcd, peers, port := "http://127.0.0.1:"+c.port(), "http://127.0.0.1:"+c.port(), c.port()
	c.Address = "127.0.0.1:" + port
	c.etcdFlags = []string{
		"--data-dir", c.data(), "--listen-client-urls", etcd, "--advertise-client-urls", etcd,
		"--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers, "--initial-cluster", "default=" + peers,
		"--unsafe-no-fsync", "--log-level", "error",
	}
	ca := filepath.Join(c.folder, "ca.pem")
	certtest.WriteFile(c.t, ca, c.Authority.PEM)
	cert, key := c.Authority.Issue(nil).Write(c.t, c.folder)
	c.serverFlags = append([]string{
		"--etcd-servers", etcd, "--bind-address", "127.0.0.1", "--secure-port", port,
		"--tls-cert-file", cert, "--tls-private-key-file", key, "--client-ca-file", ca,
		"--service-account-issuer", "https://kubernetes.default.svc", "--service-account-key-file", cert, "--service-account-signing-key-file", key,
		"--authorization-mode", "RBAC", "--service-cluster-ip-range", "10.96.0.0/12",
		"--disable-admission-plugins", "ServiceAccount", "--endpoint-reconciler-type", "none", "--enable-priority-and-fairness=false",
		"--profiling=false", "--v", "0",
	}, more...)
	admin := c.Authority.Issue(func(x *x509.Certificate) {
		x.Subject = pkix.Name{CommonName: "admin", Organization: []string{"system:masters"}}
	})
	c.client = &http.Client{Timeout: poll.Longest, Transport: &http.Transport{
		ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 8,
		TLSClientConfig: &tls.Config{RootCAs: c.Authority.Pool(), Certificates: []tls.Certificate{admin.Certificate(c.t)}, MinVersion: tls.VersionTLS12},
	}}
}

func (c *Cluster) run() {
	c.t.Helper()
	c.etcd = c.start("ETCD", c.etcdFlags)
	c.server = c.start("KUBE_APISERVER", c.serverFlags)
}

func (c *Cluster) start(variable string, flags []string) *process.Process {
	c.t.Helper()
	cmd := exec.Command(os.Getenv(variable), flags...)
	cmd.Dir = c.folder
	cmd.Stdout, cmd.Stderr = &c.log, &c.log
	p, err := process.Start(cmd)
	if err != nil {
		c.t.Fatal(err)
	}
	return p
}

// startsWithin is how long a server may take to start on a machine that is busy.
const startsWithin = 2 * time.Minute

func (c *Cluster) ready() {
	c.t.Helper()
	poll.Within(c.t, startsWithin, func(ctx context.Context) error {
		select {
		case <-c.server.Done():
			c.t.Fatalf("the API server has ended: %v\n%s", c.server.Err(), c.log.String())
		default:
		}
		_, err := c.ask(ctx, http.MethodGet, "/readyz", nil)
		return err
	})
}

func (c *Cluster) end() {
	c.Kill()
	c.client.CloseIdleConnections()
	if c.t.Failed() {
		c.t.Logf("the log of etcd and of the API server:\n%s", c.log.String())
	}
}

// Kill ends both servers, as a crash does.
func (c *Cluster) Kill() {
	for _, p := range []*process.Process{c.server, c.etcd} {
		if p != nil {
			p.Kill()
		}
	}
}

// Restart kills the servers and starts them again with what they had.
func (c *Cluster) Restart() {
	c.t.Helper()
	c.again(func() error { return nil })
}

// Backup keeps what the cluster has now, and returns where.
func (c *Cluster) Backup() string {
	c.t.Helper()
	folder := filepath.Join(c.t.TempDir(), "etcd")
	c.again(func() error { return os.CopyFS(folder, os.DirFS(c.data())) })
	return folder
}

// Restore has the cluster have what it had.
func (c *Cluster) Restore(backup string) {
	c.t.Helper()
	c.again(func() error {
		if err := os.RemoveAll(c.data()); err != nil {
			return err
		}
		return os.CopyFS(c.data(), os.DirFS(backup))
	})
}

func (c *Cluster) data() string { return filepath.Join(c.folder, "etcd") }

// again does something while the servers are down.
func (c *Cluster) again(meanwhile func() error) {
	c.t.Helper()
	c.Kill()
	c.client.CloseIdleConnections()
	if err := meanwhile(); err != nil {
		c.t.Fatal(err)
	}
	c.run()
	c.ready()
}

// Transport asks the cluster as somebody who may do everything.
func (c *Cluster) Transport() http.RoundTripper { return c.client.Transport }

// Kubeconfig writes a kubeconfig for somebody who reaches the cluster at a URL, or at host:port over
// TLS, and returns its path. user is what stands under users[0].user, in YAML.
func (c *Cluster) Kubeconfig(server, user string) string {
	c.t.Helper()
	if !strings.Contains(server, "://") {
		server = "https://" + server
	}
	folder := c.t.TempDir()
	certtest.WriteFile(c.t, filepath.Join(folder, "ca.pem"), c.Authority.PEM)
	path := filepath.Join(folder, "kubeconfig")
	certtest.WriteFile(c.t, path, fmt.Appendf(nil, `apiVersion: v1
kind: Config
current-context: test
contexts:
- {name: test, context: {cluster: test, user: test}}
clusters:
- {name: test, cluster: {server: %q, certificate-authority: ca.pem}}
users:
- {name: test, user: %s}
`, server, user))
	return path
}

// Admin is a user who may do everything, for Kubeconfig.
func (c *Cluster) Admin() string { return c.User("admin", "system:masters") }

// User is a user with a certificate, in groups, for Kubeconfig.
func (c *Cluster) User(name string, groups ...string) string {
	c.t.Helper()
	pair := c.Authority.Issue(func(x *x509.Certificate) { x.Subject = pkix.Name{CommonName: name, Organization: groups} })
	cert, key := pair.Write(c.t, c.t.TempDir())
	return fmt.Sprintf("{client-certificate: %q, client-key: %q}", cert, key)
}
