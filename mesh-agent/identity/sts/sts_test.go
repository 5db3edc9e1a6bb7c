package sts_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/pgmesh/pgmesh/internal/testbench/certtest"
	"github.com/pgmesh/pgmesh/mesh-agent/identity/sts"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	secret = "subject-secret-7Gh"
	jwt    = "urn:ietf:params:oauth:token-type:jwt"
	cart   = "spiffe://mesh.example/ns/shop/sa/cart"
)

// issuer is a token endpoint that authenticates clients by certificate.
type issuer struct {
	*httptest.Server

	asked atomic.Int32
	last  atomic.Pointer[url.Values]
	who   atomic.Pointer[string] // by certificate
	do    atomic.Pointer[http.HandlerFunc]
}

func newIssuer(t *testing.T, roots *x509.CertPool, own tls.Certificate) *issuer {
	t.Helper()
	i := &issuer{}
	i.set(i.grant(`,"expires_in":3600`))
	i.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		i.asked.Add(1)
		if err := r.ParseForm(); err != nil || r.Method != http.MethodPost || r.URL.Path != "/oauth2/token" {
			http.Error(w, "wrong", http.StatusTeapot)
			return
		}
		form, who := r.PostForm, ""
		if len(r.TLS.PeerCertificates) > 0 {
			who = r.TLS.PeerCertificates[0].URIs[0].String()
		}
		i.last.Store(&form)
		i.who.Store(&who)
		(*i.do.Load())(w, r)
	}))
	i.TLS = &tls.Config{Certificates: []tls.Certificate{own}, ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: roots}
	i.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	i.StartTLS()
	t.Cleanup(i.Close)
	return i
}

func (i *issuer) set(do http.HandlerFunc) { i.do.Store(&do) }

// grant issues a new token each time.
func (i *issuer) grant(more string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"access_token":"granted-%d","issued_token_type":"urn:ietf:params:oauth:token-type:access_token","token_type":"Bearer"%s}`, i.asked.Load(), more)
	}
}

func says(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}
}

// agent is a running exchange.
type agent struct {
	*issuer

	t       *testing.T
	at      string
	log     *lockedBuffer
	metrics *prometheus.Registry
	own     atomic.Pointer[tls.Certificate]
	issue   func() *tls.Certificate
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func start(t *testing.T, change func(*sts.Options)) *agent {
	t.Helper()
	mesh, public := certtest.NewAuthority(t), certtest.NewAuthority(t)
	server := public.Issue(func(c *x509.Certificate) { c.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)} }).Certificate(t)
	a := &agent{t: t, log: &lockedBuffer{}, metrics: prometheus.NewRegistry(), issuer: newIssuer(t, mesh.Pool(), server)}
	a.issue = func() *tls.Certificate { c := mesh.Issue(nil, cart).Certificate(t); return &c }
	a.own.Store(a.issue())
	o := sts.Options{
		Listen: "127.0.0.1:0", Upstream: a.URL + "/oauth2/token", SubjectTokenType: jwt, ClientID: cart,
		Certificate: a.own.Load, Roots: public.Pool(), Log: slog.New(slog.NewTextHandler(a.log, nil)), Metrics: a.metrics,
	}
	if change != nil {
		change(&o)
	}
	s, err := sts.Open(o)
	require.NoError(t, err)
	a.at = "http://" + s.Address() + sts.Path
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
		a.noSecrets(a.log.String())
		families, err := a.metrics.Gather()
		require.NoError(t, err)
		a.noSecrets(fmt.Sprint(families))
	})
	return a
}

// noSecrets checks that no output contains a token.
func (a *agent) noSecrets(text string) {
	a.t.Helper()
	require.NotContains(a.t, text, secret)
	require.NotContains(a.t, text, "granted-")
}

// form is a valid request with changes: pairs of names and values.
func form(changes ...string) url.Values {
	f := url.Values{
		"grant_type":    {"urn:ietf:params:oauth:grant-type:token-exchange"},
		"subject_token": {secret}, "subject_token_type": {jwt}, "audience": {"ledger"},
	}
	for n := 0; n < len(changes); n += 2 {
		if f.Del(changes[n]); changes[n+1] != "" {
			f.Set(changes[n], changes[n+1])
		}
	}
	return f
}

type said struct {
	AccessToken string `json:"access_token"`
	ExpiresIn   *int64 `json:"expires_in"`
	Error       string `json:"error"`
	Description string `json:"error_description"`
}

func (a *agent) post(f url.Values, headers ...string) (int, said) {
	a.t.Helper()
	request, err := http.NewRequestWithContext(a.t.Context(), http.MethodPost, a.at, strings.NewReader(f.Encode()))
	require.NoError(a.t, err)
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for n := 0; n < len(headers); n += 2 {
		if headers[n] == "Host" {
			request.Host = headers[n+1]
		}
		request.Header.Set(headers[n], headers[n+1])
	}
	return a.send(request)
}

func (a *agent) send(request *http.Request) (int, said) {
	a.t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	require.NoError(a.t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(a.t, err)
	require.Equal(a.t, "no-store", response.Header.Get("Cache-Control"))
	require.Equal(a.t, "application/json", response.Header.Get("Content-Type"))
	var s said
	require.NoError(a.t, json.Unmarshal(body, &s), string(body))
	require.Equal(a.t, response.StatusCode == http.StatusOK, s.Error == "")
	if s.Error != "" {
		a.noSecrets(string(body))
	}
	return response.StatusCode, s
}

func TestExchangeShowsTheMachinesCertificate(t *testing.T) {
	t.Parallel()
	a := start(t, nil)
	f := form("scope", "read write", "client_id", "somebody-else", "client_secret", "x", "unknown", "y")
	f["resource"] = []string{"https://ledger.example/a", "https://ledger.example/b"}
	status, got := a.post(f)
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, "granted-1", got.AccessToken)
	require.InDelta(t, 3600, *got.ExpiresIn, 5)
	require.Equal(t, cart, *a.who.Load())
	require.Equal(t, url.Values{
		"grant_type":    {"urn:ietf:params:oauth:grant-type:token-exchange"},
		"subject_token": {secret}, "subject_token_type": {jwt}, "audience": {"ledger"}, "scope": {"read write"},
		"resource": {"https://ledger.example/a", "https://ledger.example/b"}, "client_id": {cart},
	}, *a.last.Load(), "what it has no use for is not passed on")
}

func TestTokensAreCached(t *testing.T) {
	t.Parallel()
	a := start(t, nil)
	for want, f := range []url.Values{form(), form("audience", "other"), form("subject_token", "another's"), form("scope", "read")} {
		for range 3 {
			_, got := a.post(f)
			require.Equal(t, fmt.Sprintf("granted-%d", want+1), got.AccessToken)
		}
	}
	a.own.Store(a.issue())
	_, got := a.post(form())
	require.Equal(t, "granted-5", got.AccessToken, "a token may be bound to the certificate, which is another now")

	a.set(a.grant(``))
	for want := 6; want < 8; want++ {
		_, got = a.post(form("scope", "forever"))
		require.Equal(t, fmt.Sprintf("granted-%d", want), got.AccessToken, "nobody knows for how long it counts")
		require.Nil(t, got.ExpiresIn)
	}
	a.set(a.grant(`,"expires_in":3600,"refresh_token":"granted-r"`))
	a.post(form("scope", "renewable"))
	_, got = a.post(form("scope", "renewable"))
	require.Equal(t, "granted-9", got.AccessToken, "who may renew it is its owner")
	a.set(a.grant(`,"expires_in":0`))
	a.post(form("scope", "short"))
	_, got = a.post(form("scope", "short"))
	require.Equal(t, "granted-11", got.AccessToken)
}

func TestEqualExchangesAreMadeOnce(t *testing.T) {
	t.Parallel()
	a := start(t, nil)
	release, grant := make(chan struct{}), a.grant(`,"expires_in":3600`)
	a.set(func(w http.ResponseWriter, r *http.Request) { <-release; grant(w, r) })
	var clients sync.WaitGroup
	for range 10 {
		clients.Go(func() {
			response, err := http.PostForm(a.at, form())
			if err != nil {
				t.Error(err)
				return
			}
			defer response.Body.Close()
			if body, _ := io.ReadAll(response.Body); !strings.Contains(string(body), `"granted-1"`) {
				t.Errorf("%s", body)
			}
		})
	}
	require.Eventually(t, func() bool { return a.asked.Load() == 1 }, 10*time.Second, time.Millisecond)
	close(release)
	clients.Wait()
	http.DefaultClient.CloseIdleConnections()
	require.EqualValues(t, 1, a.asked.Load())
}

func TestSubjectTokenFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(file, []byte(secret+"-own\n"), 0o600))
	a := start(t, func(o *sts.Options) { o.SubjectTokenFile = file })
	none := form("subject_token", "", "subject_token_type", "")
	status, _ := a.post(none)
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, secret+"-own", a.last.Load().Get("subject_token"))
	require.Equal(t, jwt, a.last.Load().Get("subject_token_type"))
	a.post(form())
	require.Equal(t, secret, a.last.Load().Get("subject_token"), "who has one is asked for with that")
	require.NoError(t, os.WriteFile(file, []byte(secret+"-new\n"), 0o600))
	a.post(none)
	require.Equal(t, secret+"-new", a.last.Load().Get("subject_token"))
	status, got := a.post(form("subject_token", "", "subject_token_type", "urn:ietf:params:oauth:token-type:saml2"))
	require.Equal(t, http.StatusBadRequest, status)
	require.Equal(t, "subject_token_type is saml2, and the machine's own token, which counts where none is given, is a jwt", got.Description)
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	status, got = a.post(none)
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Contains(t, got.Description, "the machine's own token cannot be read")
	require.Contains(t, a.log.String(), "it is empty")
}

func TestInvalidRequestsAreNotForwarded(t *testing.T) {
	t.Parallel()
	a := start(t, nil)
	twice := form()
	twice.Add("scope", "a")
	twice.Add("scope", "b")
	for want, f := range map[string]url.Values{
		"invalid_request: grant_type is missing":                                        form("grant_type", ""),
		"unsupported_grant_type: grant_type has to be urn:ietf:params:oauth:grant-type": form("grant_type", "client_credentials"),
		"invalid_request: subject_token is missing: give the token to exchange, or":     form("subject_token", ""),
		"invalid_request: subject_token_type is missing: say what subject_token is, as": form("subject_token_type", ""),
		"invalid_request: subject_token_type is no URI":                                 form("subject_token_type", "jwt"),
		"invalid_request: scope is given more than once":                                twice,
		"invalid_request: actor_token and actor_token_type belong together":             form("actor_token", secret),
		"invalid_request: a resource is no absolute URI":                                form("resource", "ledger"),
		"invalid_request: the form cannot be read, or is longer than 256 kB":            form("subject_token", strings.Repeat("x", 300<<10)),
	} {
		status, got := a.post(f)
		require.Equal(t, http.StatusBadRequest, status)
		require.Contains(t, got.Error+": "+got.Description, want)
	}
	for want, headers := range map[string][]string{
		"not for pages in a browser":             {"Origin", "https://evil.example"},
		"not for pages in a browser ":            {"Sec-Fetch-Site", "cross-site"},
		"has to be localhost, or an address of ": {"Host", "evil.example"},
		"the request has to be a form":           {"Content-Type", "application/json"},
	} {
		status, got := a.post(form(), headers...)
		require.Contains(t, []int{http.StatusForbidden, http.StatusBadRequest}, status)
		require.Contains(t, got.Description, strings.TrimSpace(want))
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, a.at+"?subject_token="+secret, http.NoBody)
	require.NoError(t, err)
	status, got := a.send(request)
	require.Equal(t, http.StatusMethodNotAllowed, status)
	require.Equal(t, "tokens are exchanged by POST /token", got.Description)
	a.at += "?x=" + secret
	_, got = a.post(form())
	require.Contains(t, got.Description, "parameters belong in the form")
	require.Zero(t, a.asked.Load())
}

func TestEndpointErrorsArePassedOn(t *testing.T) {
	t.Parallel()
	a := start(t, nil)
	for _, c := range []struct {
		do          http.HandlerFunc
		status      int
		error, text string
		logged      string
	}{
		{says(400, `{"error":"invalid_target","error_description":"who is \"ledger\"? `+secret+` is no answer"}`), 400, "invalid_target", "who is 'ledger'? (token) is no answer", ""},
		{says(400, `{"error":"invalid_grant"}`), 400, "invalid_grant", "", ""},
		{says(401, `{"error":"invalid_client","error_description":"never heard of you"}`), 502, "invalid_client", "never heard of you", "--sts-client-id"},
		{says(500, `no JSON `+secret), 502, "server_error", "the server of tokens answered 500", ""},
		{says(429, `{"error":"slow_down"}`), 503, "temporarily_unavailable", "", ""},
		{says(400, `{"error":"<script>"}`), 502, "server_error", "the server of tokens answered 400", ""},
		{says(200, `granted-0`), 502, "server_error", "no token: it is no JSON object", ""},
		{says(200, `{"access_token":"granted-0"}`), 502, "server_error", "no token: it has no token_type", ""},
		{says(200, `{"access_token":"granted-0","token_type":"Bearer","expires_in":"soon"}`), 502, "server_error", "its expires_in is no number", ""},
		{func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://evil.example/", http.StatusTemporaryRedirect)
		}, 502, "server_error", "answered 307", ""},
		{func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 502, "temporarily_unavailable", "cannot be reached; the agent's log says why", "EOF"},
	} {
		a.set(c.do)
		status, got := a.post(form())
		require.Equal(t, c.status, status, got)
		require.Equal(t, c.error, got.Error)
		require.Contains(t, got.Description, c.text)
		require.Contains(t, a.log.String(), c.logged)
	}
	a.set(a.grant(``))
	status, _ := a.post(form())
	require.Equal(t, http.StatusOK, status, "a refusal is not remembered")
}

func TestUntrustedEndpointGetsNothing(t *testing.T) {
	t.Parallel()
	a := start(t, func(o *sts.Options) { o.Roots = nil })
	status, got := a.post(form())
	require.Equal(t, http.StatusBadGateway, status)
	require.Equal(t, "temporarily_unavailable", got.Error)
	require.Contains(t, a.log.String(), "certificate signed by unknown authority")
	require.Zero(t, a.asked.Load())
}

func TestMachineWithoutACertificate(t *testing.T) {
	t.Parallel()
	a := start(t, func(o *sts.Options) { o.Certificate, o.ClientID = nil, "" })
	status, _ := a.post(form())
	require.Equal(t, http.StatusOK, status)
	require.Empty(t, *a.who.Load())
	require.False(t, a.last.Load().Has("client_id"))
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	a := start(t, nil)
	a.post(form())
	a.post(form())
	a.post(form("scope", "x", "grant_type", "y"))
	a.set(says(500, ""))
	a.post(form("scope", "z"))
	families, err := a.metrics.Gather()
	require.NoError(t, err)
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			names := []string{f.GetName()}
			for _, l := range m.GetLabel() {
				names = append(names, l.GetValue())
			}
			got[strings.Join(names, " ")] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	require.Equal(t, map[string]float64{
		"pgmesh_mesh_agent_sts_requests_total exchanged": 1, "pgmesh_mesh_agent_sts_requests_total remembered": 1, "pgmesh_mesh_agent_sts_requests_total refused": 1, "pgmesh_mesh_agent_sts_requests_total failed": 1,
		"pgmesh_mesh_agent_sts_upstream_duration_seconds": 2, "pgmesh_mesh_agent_sts_tokens": 1,
	}, got)
}

func TestInvalidOptionsAreExplained(t *testing.T) {
	t.Parallel()
	good := sts.Options{Listen: "127.0.0.1:0", Upstream: "https://tokens.example/token", SubjectTokenType: jwt, Log: slog.New(slog.DiscardHandler)}
	for want, change := range map[string]func(*sts.Options){
		"--sts-listen 0.0.0.0:1: whoever reaches it gets tokens of this machine": func(o *sts.Options) { o.Listen = "0.0.0.0:1" },
		"--sts-upstream: expected the URL of a token endpoint, by https":         func(o *sts.Options) { o.Upstream = "http://tokens.example/token" },
		"and without a password":                        func(o *sts.Options) { o.Upstream = "https://a:b@tokens.example" },
		"--sts-subject-token-file: stat /nowhere":       func(o *sts.Options) { o.SubjectTokenFile = "/nowhere" },
		"--sts-subject-token-type jwt: expected one of": func(o *sts.Options) { o.SubjectTokenType = "jwt" },
	} {
		o := good
		change(&o)
		_, err := sts.Open(o)
		require.ErrorContains(t, err, want)
	}
}
