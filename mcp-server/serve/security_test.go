package serve_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/identity/tlsfiles"
	"github.com/pgmesh/pgmesh/internal/dial"
	"github.com/pgmesh/pgmesh/internal/limits"
	"github.com/pgmesh/pgmesh/internal/listen"
	"github.com/pgmesh/pgmesh/internal/monitor"
	"github.com/pgmesh/pgmesh/internal/testbench/certtest"
	"github.com/pgmesh/pgmesh/internal/testbench/journal"
	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-server/identity/tokens"
	"github.com/pgmesh/pgmesh/mcp-server/serve"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/identity/callers"
)

// secureServer is a server with TLS, with its database.
type secureServer struct {
	*running

	authority *certtest.Authority
	database  string
	store     *store.Store
	dir       string
	log       *journal.Journal
}

func startSecure(t *testing.T, change func(*serve.Options)) *secureServer {
	t.Helper()
	f := &secureServer{authority: certtest.NewAuthority(t), database: pgtest.New(t), dir: t.TempDir(), log: &journal.Journal{}}
	o := serve.Options{Database: f.database, API: "127.0.0.1:0", Log: slog.New(slog.NewTextHandler(f.log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	o.Security.TLS.ClientCA = filepath.Join(f.dir, "ca.pem")
	certtest.WriteFile(t, o.Security.TLS.ClientCA, f.authority.PEM)
	o.Security.TLS.Cert, o.Security.TLS.Key = f.authority.Issue(nil).Write(t, f.dir)
	o.Security.Allow = []string{"spiffe://mesh/reader/*", "spiffe://mesh/ops=write:shop"}
	if change != nil {
		change(&o)
	}
	f.running = launch(t, o)
	var err error
	f.store, err = store.Open(t.Context(), f.database, store.Options{})
	require.NoError(t, err)
	t.Cleanup(f.store.Close)
	return f
}

// as are the options to call with a certificate for an id; without one for none.
func (f *secureServer) as(id string) []grpc.DialOption {
	f.t.Helper()
	o := dial.Options{TLS: tlsfiles.Client{CA: filepath.Join(f.dir, "ca.pem")}}
	if id != "" {
		o.TLS.Cert, o.TLS.Key = f.authority.Issue(nil, id).Write(f.t, f.t.TempDir())
	}
	return f.by(o)
}

func (f *secureServer) by(o dial.Options) []grpc.DialOption {
	f.t.Helper()
	c, err := o.To(nil, f.MCP.String())
	require.NoError(f.t, err)
	return c.DialOptions()
}

func (f *secureServer) withToken(secret string) []grpc.DialOption {
	f.t.Helper()
	return f.by(dial.Options{TLS: tlsfiles.Client{CA: filepath.Join(f.dir, "ca.pem")}, Token: secret})
}

func (f *secureServer) token(name string, scopes ...string) string {
	f.t.Helper()
	secret, _, err := tokens.Create(f.t.Context(), callers.New(f.store), name, scopes, time.Time{}, "")
	require.NoError(f.t, err)
	return secret
}

func (f *secureServer) dial(options []grpc.DialOption) *grpc.ClientConn {
	f.t.Helper()
	conn, err := grpc.NewClient(f.MCP.String(), options...)
	require.NoError(f.t, err)
	f.t.Cleanup(func() { require.NoError(f.t, conn.Close()) })
	return conn
}

const entry = `INSERT INTO mesh.resources (kind, namespace, name, labels, spec) VALUES ('ServiceEntry', '%NS%', 'x', '{"region": "eu"}',
	'{"hosts": ["%NS%.example"], "ports": [{"number": 80, "name": "http", "protocol": "HTTP"}], "resolution": "DNS"}')`

func (f *secureServer) put(namespace string) {
	f.t.Helper()
	execute(f.t, f.database, strings.ReplaceAll(entry, "%NS%", namespace))
}

func applyOver(ctx context.Context, conn grpc.ClientConnInterface, namespace string) error {
	_, err := adminv1.NewAdminServiceClient(conn).Apply(ctx, &adminv1.ApplyRequest{Documents: []*adminv1.Document{{Content: []byte(
		`{"apiVersion": "networking.istio.io/v1", "kind": "Sidecar", "metadata": {"name": "x", "namespace": "` + namespace + `"}, "spec": {"egress": [{"hosts": ["*/*"]}]}}`)}}})
	return err
}

func TestCallersOverTLS(t *testing.T) {
	t.Parallel()
	f := startSecure(t, nil)
	f.put("shop")
	require.Equal(t, []string{"x"}, connectBy(t, f.MCP.String(), nil, f.as("spiffe://mesh/reader/1")).until(1))
	require.Equal(t, codes.PermissionDenied, status.Code(applyOver(t.Context(), f.dial(f.as("spiffe://mesh/reader/1")), "shop")))
	ops := f.dial(f.as("spiffe://mesh/ops"))
	require.NoError(t, applyOver(t.Context(), ops, "shop"))
	require.Equal(t, codes.PermissionDenied, status.Code(applyOver(t.Context(), ops, "other")))
	require.Equal(t, codes.PermissionDenied, status.Code(applyOver(t.Context(), f.dial(f.as("spiffe://mesh/stranger")), "shop")))
	require.Equal(t, codes.Unauthenticated, status.Code(applyOver(t.Context(), f.dial(f.as("")), "shop")))
	require.Equal(t, codes.Unavailable, status.Code(applyOver(t.Context(), f.dial(plaintext), "shop")), "without TLS nobody gets through")
	past, err := adminv1.NewAdminServiceClient(ops).History(t.Context(), &adminv1.HistoryRequest{})
	require.NoError(t, err)
	require.Equal(t, "spiffe://mesh/ops", past.GetRevisions()[0].GetAuthor())

	stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(f.dial(f.as(""))).StreamAggregatedResources(t.Context())
	require.NoError(t, err)
	_, err = stream.Recv()
	require.Equal(t, codes.Unauthenticated, status.Code(err), err)
	_, text := f.get("/metrics")
	require.Contains(t, text, `pgmesh_mcp_server_callers_refused_total{reason="none"} 2`)
	require.Contains(t, text, `pgmesh_mcp_server_tls_not_after_seconds{what="server certificate"}`)
}

func TestStockIstiodsMayRead(t *testing.T) {
	t.Parallel()
	f := startSecure(t, func(o *serve.Options) { o.Security.AnonymousReaders = true })
	f.put("shop")
	f.put("hidden")
	anonymous := connectBy(t, f.MCP.String(), nil, f.as(""))
	anonymous.until(2)
	require.Len(t, anonymous.held, 2)
	require.Equal(t, codes.PermissionDenied, status.Code(applyOver(t.Context(), f.dial(f.as("")), "shop")))
	execute(t, f.database, `INSERT INTO mesh.readers (identity, namespaces) VALUES ('anonymous', '{shop}')`)
	require.Equal(t, []string{"-hidden/x"}, mark(anonymous.next()), "a stream that is open is told that it is gone")
}

// mark names what changed, with a - before what is gone.
func mark(b kinds.Batch) (names []string) {
	for _, c := range b.Changes {
		name := c.Key.FullName()
		if c.Resource == nil {
			name = "-" + name
		}
		names = append(names, name)
	}
	return names
}

func TestOpenStreamsFollowTheRowsForReaders(t *testing.T) {
	t.Parallel()
	f := startSecure(t, nil)
	f.put("a")
	f.put("b")
	c := connectBy(t, f.MCP.String(), nil, f.as("spiffe://mesh/reader/1"))
	c.until(2)
	require.Len(t, c.held, 2)
	execute(t, f.database, `INSERT INTO mesh.readers (identity, namespaces, labels) VALUES ('spiffe://mesh/reader/*', '{a}', 'region in (eu)')`)
	require.Equal(t, []string{"-b/x"}, mark(c.next()))
	f.put("c")
	execute(t, f.database, `UPDATE mesh.resources SET labels = '{"region": "us"}' WHERE namespace = 'a'`)
	for len(c.held) > 0 {
		c.next()
	}
	execute(t, f.database, `UPDATE mesh.readers SET labels = ''`)
	require.Equal(t, []string{"a/x"}, mark(c.next()))
	execute(t, f.database, `UPDATE mesh.readers SET identity = 'spiffe://mesh/reader/2'`)
	require.Eventually(t, func() bool { return strings.Contains(f.log.String(), "no row of mesh.readers is for it") }, limit, 10*time.Millisecond)
	execute(t, f.database, `DELETE FROM mesh.readers`)
	for len(c.held) < 3 { // it comes back by itself
		c.next()
	}
}

func TestTokensOpenAndCloseTheDoor(t *testing.T) {
	t.Parallel()
	f := startSecure(t, nil)
	f.put("a")
	f.put("b")
	secret, admin := f.token("ci", "read:a"), f.token("admin", "admin")
	c := connectBy(t, f.MCP.String(), nil, f.withToken(secret))
	for len(c.held) == 0 { // the server may not have heard of it yet
		require.Subset(t, []string{"a/x"}, mark(c.next()))
	}
	api := adminv1.NewTokenServiceClient(f.dial(f.withToken(admin)))
	_, err := adminv1.NewTokenServiceClient(f.dial(f.withToken(secret))).ListTokens(t.Context(), &adminv1.ListTokensRequest{})
	require.Equal(t, codes.PermissionDenied, status.Code(err))

	stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(f.dial(f.withToken(secret))).DeltaAggregatedResources(t.Context())
	require.NoError(t, err)
	require.NoError(t, stream.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: "networking.istio.io/v1/Sidecar"}))
	_, err = stream.Recv()
	require.NoError(t, err)
	_, err = api.RevokeToken(t.Context(), &adminv1.RevokeTokenRequest{Name: "ci"})
	require.NoError(t, err)
	_, err = stream.Recv()
	require.Equal(t, codes.Unauthenticated, status.Code(err))
	require.ErrorContains(t, err, `the token "ci" was revoked at`)

	// A revocation by SQL is heard of.
	other := f.token("other", "read")
	conn := f.dial(f.withToken(other))
	read := func() error {
		_, err := adminv1.NewAdminServiceClient(conn).List(t.Context(), &adminv1.ListRequest{})
		return err
	}
	require.NoError(t, read())
	execute(t, f.database, `SELECT mesh.revoke_token('other')`)
	require.Eventually(t, func() bool { return status.Code(read()) == codes.Unauthenticated }, limit, 10*time.Millisecond)

	made, err := api.CreateToken(t.Context(), &adminv1.CreateTokenRequest{Name: "made", Scopes: []string{"read"}})
	require.NoError(t, err)
	require.NoError(t, applyOver(t.Context(), f.dial(f.withToken(admin)), "a"))
	list, err := api.ListTokens(t.Context(), &adminv1.ListTokensRequest{})
	require.NoError(t, err)
	require.Len(t, list.GetTokens(), 4)
	require.Equal(t, "admin", list.GetTokens()[2].GetCreatedBy())
	f.end()
	tokens, err := callers.New(f.store).Tokens(t.Context())
	require.NoError(t, err)
	require.False(t, tokens[0].Used.IsZero(), "it is noted at the end at the latest")
	for _, s := range []string{secret, admin, other, made.GetSecret()} {
		require.NotContains(t, f.log.String(), s)
		require.NotContains(t, f.log.String(), strings.TrimPrefix(s, "pgmesh_"))
	}
}

// ask asks the API over HTTP, with a certificate for an id and with a token; "" stands for none.
func (f *secureServer) ask(id, secret, method, path, body string) (code int, answer string) {
	f.t.Helper()
	config := &tls.Config{RootCAs: f.authority.Pool()}
	if id != "" {
		config.Certificates = []tls.Certificate{f.authority.Issue(nil, id).Certificate(f.t)}
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}}
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(f.t.Context(), method, "https://"+f.API.String()+path, strings.NewReader(body))
	require.NoError(f.t, err)
	if secret != "" {
		req.Header.Set("Authorization", "Bearer "+secret)
	}
	got, err := client.Do(req)
	require.NoError(f.t, err)
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	require.NoError(f.t, err)
	return got.StatusCode, string(text)
}

func TestTheAPIOverHTTPIsBehindTheSameDoor(t *testing.T) {
	t.Parallel()
	f := startSecure(t, nil)
	f.put("a")
	f.put("b")
	secret := f.token("ci", "read:a")
	code, body := f.ask("", secret, http.MethodGet, "/v1/resources", "")
	require.Equal(t, http.StatusOK, code, body)
	var listed struct {
		Resources []json.RawMessage `json:"resources"`
	}
	require.NoError(t, json.Unmarshal([]byte(body), &listed))
	require.Len(t, listed.Resources, 1)
	code, body = f.ask("", secret, http.MethodGet, "/v1/resources?namespaces=b", "")
	require.Equal(t, http.StatusForbidden, code)
	require.Contains(t, body, "token:ci may not read")
	code, _ = f.ask("", "", http.MethodGet, "/v1/resources", "")
	require.Equal(t, http.StatusUnauthorized, code)
	answer, err := http.Get("http://" + f.API.String() + "/v1/resources")
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, http.StatusBadRequest, answer.StatusCode, "without TLS it says that it wants TLS, and no more")
}

func TestTokensOverHTTPAreForAdministrators(t *testing.T) {
	t.Parallel()
	const chief = "spiffe://mesh/chief"
	f := startSecure(t, func(o *serve.Options) { o.Security.Allow = append(o.Security.Allow, chief+"=admin") })
	writer := f.token("writer", "write:*", "read")
	calls := [][]string{
		{http.MethodGet, "/v1/tokens", ""},
		{http.MethodPost, "/v1/tokens", `{"name": "mine", "scopes": ["admin"]}`},
		{http.MethodDelete, "/v1/tokens/writer", ""},
	}
	for _, call := range calls {
		for _, who := range []struct {
			id, secret string
			want       int
		}{{"", "", http.StatusUnauthorized}, {"spiffe://mesh/ops", "", http.StatusForbidden}, {"", writer, http.StatusForbidden}} {
			code, body := f.ask(who.id, who.secret, call[0], call[1], call[2])
			require.Equal(t, who.want, code, "%s %q %s", call[0], who.id, body)
		}
	}

	var made struct {
		Secret string
		Token  struct{ Name, CreatedBy, ExpiresAt string }
	}
	code, body := f.ask(chief, "", http.MethodPost, "/v1/tokens", `{"name": "ci", "scopes": ["admin"], "expiresAt": "2099-01-01T00:00:00Z"}`)
	require.Equal(t, http.StatusOK, code, body)
	require.NoError(t, json.Unmarshal([]byte(body), &made))
	require.Equal(t, []string{"ci", chief, "2099-01-01T00:00:00Z"}, []string{made.Token.Name, made.Token.CreatedBy, made.Token.ExpiresAt})
	code, body = f.ask("", made.Secret, http.MethodPost, "/v1/tokens", `{"name": "ci", "scopes": ["read"]}`)
	require.Equal(t, http.StatusConflict, code, body)
	code, body = f.ask("", made.Secret, http.MethodPost, "/v1/tokens", `{"name": "second", "scopes": ["fly"]}`)
	require.Equal(t, http.StatusBadRequest, code, body)
	code, body = f.ask("", made.Secret, http.MethodGet, "/v1/tokens", "")
	require.Equal(t, http.StatusOK, code, body)
	require.NotContains(t, body, made.Secret)
	var listed struct{ Tokens []struct{ Name string } }
	require.NoError(t, json.Unmarshal([]byte(body), &listed))
	require.Equal(t, []struct{ Name string }{{"ci"}, {"writer"}}, listed.Tokens)

	code, body = f.ask(chief, "", http.MethodDelete, "/v1/tokens/ci", "")
	require.Equal(t, http.StatusOK, code, body)
	code, body = f.ask("", made.Secret, http.MethodGet, "/v1/tokens", "")
	require.Equal(t, http.StatusUnauthorized, code, body)
	code, body = f.ask(chief, "", http.MethodDelete, "/v1/tokens/ci", "")
	require.Equal(t, http.StatusNotFound, code, body)
	require.NotContains(t, f.log.String(), strings.TrimPrefix(made.Secret, "pgmesh_"))
}

func TestListsOfCallersAreReadAgain(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "allowed")
	certtest.WriteFile(t, file, []byte("# nobody yet\n"))
	f := startSecure(t, func(o *serve.Options) { o.Security.Allow, o.Security.AllowFile = nil, file })
	conn := f.dial(f.as("spiffe://mesh/late"))
	read := func() error {
		_, err := adminv1.NewAdminServiceClient(conn).List(t.Context(), &adminv1.ListRequest{})
		return err
	}
	require.Equal(t, codes.PermissionDenied, status.Code(read()))
	certtest.WriteFile(t, file, []byte("spiffe://mesh/late\n"))
	require.Eventually(t, func() bool { return read() == nil }, limit, 10*time.Millisecond)
	watch, err := adminv1.NewAdminServiceClient(conn).Watch(t.Context(), &adminv1.WatchRequest{})
	require.NoError(t, err)
	_, err = watch.Recv()
	require.NoError(t, err)
	certtest.WriteFile(t, file, []byte("spiffe://mesh/other\n"))
	_, err = watch.Recv()
	require.Equal(t, codes.PermissionDenied, status.Code(err), err)
}

func TestLimitsOfTheServer(t *testing.T) {
	t.Parallel()
	f := startSecure(t, func(o *serve.Options) { o.Security.Limits = limits.Options{Rate: 0.001, Burst: 2} })
	conn := f.dial(f.as("spiffe://mesh/ops"))
	require.NoError(t, applyOver(t.Context(), conn, "shop"))
	require.NoError(t, applyOver(t.Context(), conn, "shop"))
	require.Equal(t, codes.ResourceExhausted, status.Code(applyOver(t.Context(), conn, "shop")))
	_, text := f.get("/metrics")
	require.Contains(t, text, `pgmesh_mcp_server_limits_exceeded_total{limit="rate"} 1`)
}

func TestFlagsOfSecurityThatCannotWorkAreRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a := certtest.NewAuthority(t)
	cert, key := a.Issue(nil).Write(t, dir)
	ca := filepath.Join(dir, "ca.pem")
	certtest.WriteFile(t, ca, a.PEM)
	pair := tlsfiles.Server{Cert: cert, Key: key}
	mutual := tlsfiles.Server{Cert: cert, Key: key, ClientCA: ca}
	for says, tt := range map[string]struct {
		security serve.Security
		insecure bool
	}{
		"give --tls-cert and --tls-key; or add --insecure":    {serve.Security{}, false},
		"--insecure and the flags for TLS exclude each other": {serve.Security{TLS: pair}, true},
		"are about callers over TLS":                          {serve.Security{AnonymousReaders: true}, true},
		"--client-ca says who vouches for callers, and nothi": {serve.Security{TLS: mutual}, false},
		"--allow names certificates that nobody vouches for":  {serve.Security{TLS: pair, Allow: []string{"spiffe://mesh/a"}}, false},
		"is not a pattern of identities":                      {serve.Security{TLS: mutual, Allow: []string{"mesh/a"}}, false},
		"allow list: open /nowhere":                           {serve.Security{TLS: mutual, AllowFile: "/nowhere"}, false},
		"--tls-cert and --tls-key belong together":            {serve.Security{TLS: tlsfiles.Server{Cert: cert}}, false},
	} {
		err := serve.Run(t.Context(), serve.Options{
			Database: "postgres://127.0.0.1:1/x", Listen: "127.0.0.1:0", HTTP: monitor.Options{Address: "127.0.0.1:0"}, Plaintext: listen.Plaintext{Allowed: tt.insecure}, Security: tt.security, Log: discard,
		}, nil)
		require.ErrorContains(t, err, says)
	}
}

func TestCallersAreKnownWhileTheDatabaseIsAway(t *testing.T) {
	t.Parallel()
	postgres, state, dir := pgtest.Server(t), t.TempDir(), t.TempDir()
	f := &secureServer{authority: certtest.NewAuthority(t), database: postgres.URL, dir: dir, log: &journal.Journal{}}
	o := serve.Options{Database: postgres.URL, StateDir: state, Log: slog.New(slog.NewTextHandler(f.log, nil))}
	o.Security.TLS.ClientCA = filepath.Join(dir, "ca.pem")
	certtest.WriteFile(t, o.Security.TLS.ClientCA, f.authority.PEM)
	o.Security.TLS.Cert, o.Security.TLS.Key = f.authority.Issue(nil).Write(t, dir)
	o.Security.Allow = []string{"spiffe://mesh/*"}
	f.running = launch(t, o)
	f.put("a")
	f.put("b")
	s, err := store.Open(t.Context(), postgres.URL, store.Options{})
	require.NoError(t, err)
	f.store = s
	secret, revoked := f.token("ci", "read"), f.token("lost", "read")
	_, err = callers.New(s).RevokeToken(t.Context(), "lost", "")
	require.NoError(t, err)
	s.Close()
	execute(t, postgres.URL, `INSERT INTO mesh.readers (identity, namespaces) VALUES ('spiffe://mesh/a', '{a}')`)
	connectBy(t, f.MCP.String(), nil, f.withToken(secret)).until(2)
	file := filepath.Join(state, "mcp-server.callers")
	require.Eventually(t, func() bool {
		text, err := os.ReadFile(file)
		return err == nil && strings.Contains(string(text), "spiffe://mesh/a") && strings.Contains(string(text), `"lost"`)
	}, limit, 10*time.Millisecond)
	f.end()
	postgres.Stop()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NotContains(t, string(text), strings.TrimPrefix(secret, "pgmesh_"))
	about, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), about.Mode().Perm())

	f.running = launch(t, o)
	reader := connectBy(t, f.MCP.String(), nil, f.as("spiffe://mesh/a"))
	require.Equal(t, []string{"a/x"}, mark(reader.next()), "what it may see, and no more")
	everything := connectBy(t, f.MCP.String(), nil, f.withToken(secret))
	require.Len(t, mark(everything.next()), 2)
	require.Equal(t, codes.Unauthenticated, status.Code(applyOver(t.Context(), f.dial(f.withToken(revoked)), "a")))
	stranger, err := discoveryv3.NewAggregatedDiscoveryServiceClient(f.dial(f.as("spiffe://mesh/b"))).DeltaAggregatedResources(t.Context())
	require.NoError(t, err)
	require.NoError(t, stranger.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: "networking.istio.io/v1/Sidecar"}))
	_, err = stranger.Recv()
	require.Equal(t, codes.PermissionDenied, status.Code(err))
	f.end()

	certtest.WriteFile(t, file, []byte(strings.Replace(string(text), "spiffe://mesh/a", "spiffe://mesh/*", 1)))
	f.running = launch(t, o)
	require.Eventually(t, func() bool { return strings.Contains(f.log.String(), "its checksum is another") }, limit, 10*time.Millisecond)
	require.Equal(t, codes.Unavailable, status.Code(applyOver(t.Context(), f.dial(f.withToken(secret)), "a")), "nobody can tell whose token it is")
}
