package tlsfiles_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/pgmesh/pgmesh/identity/authority"
	"github.com/pgmesh/pgmesh/identity/tlsfiles"
	"github.com/pgmesh/pgmesh/internal/kit/reload"
	"github.com/pgmesh/pgmesh/internal/testbench/certtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server answers each connection with the URIs of the client's certificate, over what its files
// say.
type server struct {
	t       *testing.T
	dir     string
	files   *tlsfiles.ServerFiles
	address string
	metrics *prometheus.Registry
	log     *bytes.Buffer
}

func serve(t *testing.T, pair certtest.Pair, clients *certtest.Authority) *server {
	t.Helper()
	s := &server{t: t, dir: t.TempDir(), metrics: prometheus.NewRegistry(), log: &bytes.Buffer{}}
	f := tlsfiles.Server{ClientCA: filepath.Join(s.dir, "clients.pem")}
	f.Cert, f.Key = pair.Write(t, s.dir)
	certtest.WriteFile(t, f.ClientCA, clients.PEM)
	var err error
	s.files, err = f.Load(reload.Options{Log: slog.New(slog.NewTextHandler(s.log, nil)), Metrics: reload.NewMetrics(s.metrics, reload.Names{Unusable: "files_unusable", Loaded: "files_loaded_total"})}, s.metrics, "tls_not_after_seconds")
	require.NoError(t, err)
	l, err := tls.Listen("tcp", "127.0.0.1:0", s.files.Config())
	require.NoError(t, err)
	s.address = l.Addr().String()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			greet(conn.(*tls.Conn))
		}
	}()
	t.Cleanup(func() {
		require.NoError(t, l.Close())
		<-ended
	})
	return s
}

func greet(conn *tls.Conn) {
	defer conn.Close()
	if conn.Handshake() != nil {
		return
	}
	var who []any
	for _, c := range conn.ConnectionState().PeerCertificates {
		for _, u := range c.URIs {
			who = append(who, u)
		}
	}
	fmt.Fprint(conn, who...)
}

// run keeps the server's files new, as a program does.
func (s *server) run() {
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- s.files.Run(ctx) }()
	s.t.Cleanup(func() {
		cancel()
		require.ErrorIs(s.t, <-ran, context.Canceled)
	})
}

func ask(address string, c *tls.Config) (string, error) {
	conn, err := tls.Dial("tcp", address, c)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	answer, err := io.ReadAll(conn)
	return string(answer), err
}

func (s *server) ask(c *tlsfiles.ClientFiles) (string, error) { return ask(s.address, c.Config()) }

// client has files of its own.
func client(t *testing.T, server *certtest.Authority, pair certtest.Pair, change func(*tlsfiles.Client)) (*tlsfiles.ClientFiles, string) {
	t.Helper()
	dir := t.TempDir()
	c := tlsfiles.Client{CA: filepath.Join(dir, "ca.pem")}
	certtest.WriteFile(t, c.CA, server.PEM)
	c.Cert, c.Key = pair.Write(t, dir)
	if change != nil {
		change(&c)
	}
	files, err := c.Load(reload.Options{})
	require.NoError(t, err)
	return files, dir
}

const (
	limit = 20 * time.Second
	step  = 20 * time.Millisecond // files are read when the time has come, which nobody is told of
)

func TestCertificatesAreRenewedWhileServing(t *testing.T) {
	t.Parallel()
	old, renewed := certtest.NewAuthority(t), certtest.NewAuthority(t)
	s := serve(t, old.Issue(nil), old)
	s.run()
	c, dir := client(t, old, old.Issue(nil, "spiffe://mesh/old"), nil)
	who, err := s.ask(c)
	require.NoError(t, err)
	require.Equal(t, "spiffe://mesh/old", who)

	// The server's certificate and the authority of its clients.
	certtest.WriteFile(t, filepath.Join(s.dir, "clients.pem"), renewed.PEM)
	renewed.Issue(nil).Write(t, s.dir)
	require.Eventually(t, func() bool { _, err := s.ask(c); return err != nil }, limit, step)
	certtest.WriteFile(t, filepath.Join(dir, "ca.pem"), renewed.PEM)
	renewed.Issue(nil, "spiffe://mesh/renewed").Write(t, dir)
	require.Eventually(t, func() bool { who, err := s.ask(c); return err == nil && who == "spiffe://mesh/renewed" }, limit, step)
}

func TestBadFilesLeaveWhatWasBeforeInForce(t *testing.T) {
	t.Parallel()
	a := certtest.NewAuthority(t)
	s := serve(t, a.Issue(nil), a)
	s.run()
	c, _ := client(t, a, a.Issue(nil, "spiffe://mesh/a"), nil)
	expired := a.Issue(func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) })
	for i, pair := range []certtest.Pair{{Cert: []byte("rubbish"), Key: []byte("rubbish")}, {Cert: a.Issue(nil).Cert, Key: a.Issue(nil).Key}, expired} {
		pair.Write(t, s.dir)
		require.Eventually(t, func() bool { return s.metric("files_loaded_total", "unusable") > float64(i) }, limit, step)
		require.InDelta(t, 1, s.metric("files_unusable"), 0)
		who, err := s.ask(c)
		require.NoError(t, err)
		require.Equal(t, "spiffe://mesh/a", who)
	}
	a.Issue(nil).Write(t, s.dir)
	require.Eventually(t, func() bool { return s.metric("files_unusable") == 0 }, limit, step)
}

// metric is the value of a metric, with a label of that value.
func (s *server) metric(name string, label ...string) float64 {
	s.t.Helper()
	families, err := s.metrics.Gather()
	require.NoError(s.t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if f.GetName() == name && (len(label) == 0 || l.GetValue() == label[0]) {
					return m.GetGauge().GetValue() + m.GetCounter().GetValue()
				}
			}
		}
	}
	return 0
}

func TestTheEndOfCertificatesIsMeasured(t *testing.T) {
	t.Parallel()
	a := certtest.NewAuthority(t)
	end := time.Now().Add(42 * time.Minute).Truncate(time.Second)
	s := serve(t, a.Issue(func(c *x509.Certificate) { c.NotAfter = end }), a)
	require.InDelta(t, float64(end.Unix()), s.metric("tls_not_after_seconds", "server certificate"), 0)
	require.Positive(t, s.metric("tls_not_after_seconds", "client authorities"))
}

func TestOldVersionsOfTLSAreRefused(t *testing.T) {
	t.Parallel()
	a := certtest.NewAuthority(t)
	s := serve(t, a.Issue(nil), a)
	_, err := ask(s.address, &tls.Config{RootCAs: a.Pool(), MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11})
	require.ErrorContains(t, err, "protocol version")
	_, err = ask(s.address, &tls.Config{RootCAs: a.Pool(), MaxVersion: tls.VersionTLS12})
	require.NoError(t, err, "without a certificate, and with TLS 1.2")
}

func TestServersAreKnownByNameOrByID(t *testing.T) {
	t.Parallel()
	a := certtest.NewAuthority(t)
	nameless := func(c *x509.Certificate) { c.DNSNames, c.IPAddresses = nil, []net.IP(nil) }
	s := serve(t, a.Issue(nameless, "spiffe://mesh/mcp-server"), a)
	pair := a.Issue(nil, "spiffe://mesh/a")
	for name, tt := range map[string]struct {
		authority *certtest.Authority
		change    func(*tlsfiles.Client)
		says      string
	}{
		"by a name that it has not":  {a, nil, "doesn't contain any IP SANs"},
		"by its id":                  {a, func(c *tlsfiles.Client) { c.ServerID = "spiffe://mesh/mcp-server" }, ""},
		"by another id":              {a, func(c *tlsfiles.Client) { c.ServerID = "spiffe://mesh/other" }, "the server is not spiffe://mesh/other"},
		"by its id, of nobody known": {certtest.NewAuthority(t), func(c *tlsfiles.Client) { c.ServerID = "spiffe://mesh/mcp-server" }, "unknown authority"},
		"by another name":            {a, func(c *tlsfiles.Client) { c.ServerName = "mesh.example.com" }, "is not valid for any names"},
	} {
		c, _ := client(t, tt.authority, pair, tt.change)
		who, err := s.ask(c)
		if tt.says == "" {
			require.NoError(t, err, name)
			require.Equal(t, "spiffe://mesh/a", who)
			continue
		}
		require.ErrorContains(t, err, tt.says, name)
	}
}

func TestFilesThatDoNotFitAreRefusedAtTheStart(t *testing.T) {
	t.Parallel()
	a, dir := certtest.NewAuthority(t), t.TempDir()
	cert, key := a.Issue(nil).Write(t, dir)
	empty := filepath.Join(dir, "empty.pem")
	require.NoError(t, os.WriteFile(empty, []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"), 0o600))
	for says, s := range map[string]tlsfiles.Server{
		"--tls-cert and --tls-key belong together":      {Cert: cert},
		"server certificate: open /nowhere/key.pem":     {Cert: cert, Key: "/nowhere/key.pem"},
		"failed to find any PEM data":                   {Cert: empty, Key: os.DevNull},
		empty + ": certificate 1: x509":                 {Cert: cert, Key: key, ClientCA: empty},
		os.DevNull + ": there is no certificate in it":  {Cert: cert, Key: key, ClientCA: os.DevNull},
		key + ": there is no certificate in it, in PEM": {Cert: cert, Key: key, ClientCA: key},
	} {
		_, err := s.Load(reload.Options{}, nil, "")
		require.ErrorContains(t, err, says)
	}
	for says, c := range map[string]tlsfiles.Client{
		"give --tls-cert and --tls-key":         {Cert: cert},
		"--tls-server-id mesh":                  {ServerID: "mesh"},
		"authorities of the server: open /nope": {CA: "/nope"},
	} {
		_, err := c.Load(reload.Options{})
		require.ErrorContains(t, err, says)
	}
	_, err := (&tlsfiles.Client{}).Load(reload.Options{})
	require.NoError(t, err, "the machine's own authorities will do")
}

func TestAnotherMemberOfTheMeshIsNoServer(t *testing.T) {
	t.Parallel()
	root, err := authority.NewRoot("mesh", time.Hour)
	require.NoError(t, err)
	key, err := authority.NewKey()
	require.NoError(t, err)
	given, err := root.Delegate(certtest.RequestFor(t, key), "discovery", time.Hour)
	require.NoError(t, err)
	stolen, err := authority.EncodeKey(key)
	require.NoError(t, err)
	delegated, err := authority.Load(given.ChainPEM, stolen, root.RootsPEM())
	require.NoError(t, err)
	clients := certtest.NewAuthority(t)
	const server, discovery = "spiffe://mesh/pgmesh/mcp-server/a", "spiffe://mesh/pgmesh/discovery/a"
	for name, c := range map[string]struct {
		signer   *authority.Authority
		id       string
		hosts    []string
		wantedID string
		says     string
	}{
		"the server":              {root, server, []string{"localhost"}, "", ""},
		"the server by its id":    {root, server, nil, server, ""},
		"a discovery":             {root, discovery, []string{"localhost"}, "", "and no mcp-server"},
		"a stolen discovery":      {delegated, server, []string{"localhost"}, "", "is excluded by constraint"},
		"a stolen one by its id":  {delegated, server, nil, server, "that a discovery has signed"},
		"a machine by an address": {delegated, server, []string{"127.0.0.1"}, "", "is excluded by constraint"},
	} {
		leaf, err := authority.NewKey()
		require.NoError(t, err)
		issued, err := c.signer.Sign(authority.Request{CSR: certtest.RequestFor(t, leaf), ID: spiffeid.RequireFromString(c.id), Hosts: c.hosts, Lifetime: time.Hour})
		require.NoError(t, err)
		text, err := authority.EncodeKey(leaf)
		require.NoError(t, err)
		s := serve(t, certtest.Pair{Cert: issued.ChainPEM, Key: text}, clients)
		ca := filepath.Join(s.dir, "ca.pem")
		certtest.WriteFile(t, ca, root.RootsPEM())
		f := tlsfiles.Client{CA: ca, ServerName: "localhost", ServerID: c.wantedID}
		if len(c.hosts) > 0 {
			f.ServerName = c.hosts[0]
		}
		files, err := f.Load(reload.Options{})
		require.NoError(t, err)
		conn, err := tls.Dial("tcp", s.address, files.Config())
		if c.says == "" {
			require.NoError(t, err, name)
			require.NoError(t, conn.Close())
			continue
		}
		require.ErrorContains(t, err, c.says, name)
	}
}
