package jwks_test

import (
	"bytes"
	"context"
	"encoding/pem"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/pgmesh/pgmesh/discovery/identity/jwks"
	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/internal/places"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func keySet(secret string) string { return `{"keys":[{"k":"` + secret + `","kty":"oct"}]}` }

// issuer is a key server whose answers tests decide.
type issuer struct {
	*httptest.Server

	mu     sync.Mutex
	answer http.HandlerFunc
	asked  atomic.Int64
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	i := &issuer{}
	i.Server = httptest.NewServer(i)
	t.Cleanup(i.Close)
	return i
}

func (i *issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	answer := i.answer
	i.mu.Unlock()
	i.asked.Add(1)
	answer(w, r)
}

func (i *issuer) answers(f http.HandlerFunc) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.answer = f
}

func (i *issuer) publishes(document string) {
	i.answers(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, document) })
}

func (i *issuer) fails(status int) {
	i.answers(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
}

// impatient options are for issuers on loopback, with short times for tests.
func impatient() jwks.Options {
	return jwks.Options{Refresh: 20 * time.Millisecond, Retry: 5 * time.Millisecond, Options: places.Options{Allowed: []string{"127.0.0.0/8"}}}
}

// keeper runs until the test ends, or until it is stopped.
type keeper struct {
	*jwks.Keeper

	metrics *prometheus.Registry
	stop    func()
}

func run(t *testing.T, o jwks.Options) *keeper {
	t.Helper()
	k := &keeper{metrics: prometheus.NewRegistry()}
	var err error
	k.Keeper, err = jwks.New(o, slog.New(slog.DiscardHandler), k.metrics)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- k.Run(ctx) }()
	k.stop = sync.OnceFunc(func() {
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
	})
	t.Cleanup(k.stop)
	return k
}

func (k *keeper) want(sources ...mesh.KeySource) {
	wanted := map[mesh.KeySource]time.Duration{}
	for _, s := range sources {
		wanted[s] = 5 * time.Second
	}
	k.Want(wanted)
}

// has waits until the result for a source is good.
func (k *keeper) has(t *testing.T, at mesh.KeySource, good func(mesh.Fetched) bool) mesh.Fetched {
	t.Helper()
	for deadline := time.After(20 * time.Second); ; {
		if f, tried := k.Keys()[at]; tried && good(f) {
			return f
		}
		select {
		case <-k.News():
		case <-deadline:
			require.FailNow(t, "it does not come", "%+v", k.Keys())
		}
	}
}

func (k *keeper) hasKeys(t *testing.T, at mesh.KeySource, document string) {
	t.Helper()
	k.has(t, at, func(f mesh.Fetched) bool { return f == mesh.Fetched{Keys: document} })
}

func (k *keeper) failsWith(t *testing.T, at mesh.KeySource, reason string) {
	t.Helper()
	f := k.has(t, at, func(f mesh.Fetched) bool { return f.Problem != "" })
	require.Contains(t, f.Problem, reason)
	require.Empty(t, f.Keys)
}

func TestKeysAreFetchedAndFetchedAgain(t *testing.T) {
	t.Parallel()
	i, k := newIssuer(t), run(t, impatient())
	at := mesh.KeySource{URL: i.URL + "/keys"}
	i.publishes(" " + keySet("b25l") + "\n")
	k.want(at)
	k.hasKeys(t, at, keySet("b25l"))
	i.publishes(keySet("dHdv"))
	k.hasKeys(t, at, keySet("dHdv"))
}

func TestTheSameKeysAreNoNews(t *testing.T) {
	t.Parallel()
	i, k := newIssuer(t), run(t, impatient())
	at := mesh.KeySource{URL: i.URL}
	i.publishes(`{"keys":[{"k":"b25l","kty":"oct"},{"k":"dHdv","kty":"oct"}]}`)
	k.want(at)
	k.Await(t.Context())
	<-k.News()
	before := k.Keys()
	again := make(chan struct{})
	n := 0
	i.answers(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"keys":[{"kty":"oct","k":"dHdv"},{"kty":"oct","k":"b25l","use":"sig"}], "issued": 5}`)
		if n++; n == 3 {
			close(again)
		}
	})
	<-again
	require.Empty(t, k.News())
	require.Equal(t, before, k.Keys())
}

func TestAnIssuerSaysWhereItsKeysAre(t *testing.T) {
	t.Parallel()
	i, k := newIssuer(t), run(t, impatient())
	i.answers(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/tenant/.well-known/openid-configuration":
			fmt.Fprintf(w, `{"jwks_uri": "%s/published"}`, i.URL)
		case "/published":
			fmt.Fprint(w, keySet("b25l"))
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	})
	good, bad, name := mesh.KeySource{Issuer: i.URL + "/tenant/"}, mesh.KeySource{Issuer: i.URL}, mesh.KeySource{Issuer: "accounts"}
	k.want(good, bad, name)
	k.hasKeys(t, good, keySet("b25l"))
	k.failsWith(t, bad, "/.well-known/openid-configuration answers is of no use: the status is 404")
	k.failsWith(t, name, `the issuer "accounts" is no URL that could be asked where its keys are: write jwksUri or jwks`)
	i.answers(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"jwks_uri": "file:///etc/passwd"}`) })
	k.has(t, bad, func(f mesh.Fetched) bool { return strings.Contains(f.Problem, `it leads to a URL of "file"`) })
	i.publishes(`{}`)
	k.has(t, bad, func(f mesh.Fetched) bool { return strings.Contains(f.Problem, "it has no jwks_uri") })
}

func TestKeysThatComeLateAreThere(t *testing.T) {
	t.Parallel()
	i, k := newIssuer(t), run(t, impatient())
	at := mesh.KeySource{URL: i.URL}
	i.fails(http.StatusServiceUnavailable)
	k.want(at)
	k.failsWith(t, at, "answers is of no use: the status is 503")
	i.publishes(keySet("b25l"))
	k.hasKeys(t, at, keySet("b25l"))
	i.publishes("<html>")
	f := k.has(t, at, func(f mesh.Fetched) bool { return f.Problem != "" })
	require.Equal(t, keySet("b25l"), f.Keys, "those from before are in force")
	require.Contains(t, f.Problem, "is of no use: it is no JSON object")
	require.NotContains(t, f.Problem, "html", "what was fetched is not shown")
}

func TestKeysThatAreTooOldAreNotUsed(t *testing.T) {
	t.Parallel()
	o := impatient()
	o.MaxAge = 100 * time.Millisecond
	i, k := newIssuer(t), run(t, o)
	at := mesh.KeySource{URL: i.URL}
	i.publishes(keySet("b25l"))
	k.want(at)
	k.hasKeys(t, at, keySet("b25l"))
	i.fails(http.StatusInternalServerError)
	k.has(t, at, func(f mesh.Fetched) bool { return f.Keys == "" })
}

func TestAnswersHaveToBeQuickAndSmall(t *testing.T) {
	t.Parallel()
	o := impatient()
	o.MaxSize = 1000
	k := run(t, o)
	slow, large := newIssuer(t), newIssuer(t)
	slow.answers(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	large.publishes(keySet(strings.Repeat("A", 2000)))
	k.Want(map[mesh.KeySource]time.Duration{{URL: slow.URL}: 50 * time.Millisecond, {URL: large.URL}: time.Minute})
	k.failsWith(t, mesh.KeySource{URL: slow.URL}, "there is no answer within 50ms")
	k.failsWith(t, mesh.KeySource{URL: large.URL}, "it has more than 1000 bytes, which is what --jwks-max-size allows")
}

func TestSourcesThatNobodyWantsAreForgotten(t *testing.T) {
	t.Parallel()
	i, k := newIssuer(t), run(t, impatient())
	one, two := mesh.KeySource{URL: i.URL + "/1"}, mesh.KeySource{URL: i.URL + "/2"}
	i.publishes(keySet("b25l"))
	k.want(one, two)
	k.hasKeys(t, one, keySet("b25l"))
	k.hasKeys(t, two, keySet("b25l"))
	k.want(two)
	require.NotContains(t, k.Keys(), one)
	require.Contains(t, k.Keys(), two)
	k.want()
	require.Empty(t, k.Keys())
}

func TestAwaitWaitsForTheFirstAttempts(t *testing.T) {
	t.Parallel()
	i, k := newIssuer(t), run(t, impatient())
	open := make(chan struct{})
	i.answers(func(w http.ResponseWriter, _ *http.Request) {
		<-open
		fmt.Fprint(w, keySet("b25l"))
	})
	at := mesh.KeySource{URL: i.URL}
	k.want(at)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	k.Await(ended)
	require.Empty(t, k.Keys())
	close(open)
	k.Await(t.Context())
	require.Equal(t, mesh.FetchedKeys{at: {Keys: keySet("b25l")}}, k.Keys())
}

// TestKeysOutliveARestart has an issuer that is away when discovery starts again.
func TestKeysOutliveARestart(t *testing.T) {
	t.Parallel()
	o, i := impatient(), newIssuer(t)
	o.File = filepath.Join(t.TempDir(), "keys.json")
	at, discovered := mesh.KeySource{URL: i.URL}, mesh.KeySource{Issuer: i.URL}
	i.publishes(keySet("b25l"))
	k := run(t, o)
	k.want(at)
	k.hasKeys(t, at, keySet("b25l"))
	k.stop()
	i.fails(http.StatusBadGateway)
	k = run(t, o)
	k.want(at, discovered)
	k.Await(t.Context())
	require.Equal(t, keySet("b25l"), k.Keys()[at].Keys)
	require.Empty(t, k.Keys()[discovered].Keys, "which is another place")
	k.stop()

	require.NoError(t, os.WriteFile(o.File, []byte("broken"), 0o600))
	k = run(t, o)
	k.want(at)
	k.failsWith(t, at, "the status is 502")
	k.stop()
	info, err := os.ReadDir(filepath.Dir(o.File))
	require.NoError(t, err)
	require.Len(t, info, 1, "nothing is left beside it")
}

func TestRedirectsAreFollowedWhereTheyMayLead(t *testing.T) {
	t.Parallel()
	i, k := newIssuer(t), run(t, impatient())
	i.answers(func(w http.ResponseWriter, r *http.Request) {
		to := map[string]string{
			"/good": "/keys", "/round": "/round", "/file": "file:///etc/passwd", "/metadata": "http://169.254.169.254/latest",
			"/mapped": "http://[::ffff:169.254.169.254]/latest", "/six": "http://[::1]:1/", "/elsewhere": "gopher://127.0.0.1/",
		}[r.URL.Path]
		if to == "" {
			fmt.Fprint(w, keySet("b25l"))
			return
		}
		http.Redirect(w, r, to, http.StatusFound)
	})
	at := func(path string) mesh.KeySource { return mesh.KeySource{URL: i.URL + path} }
	k.want(at("/good"), at("/round"), at("/file"), at("/metadata"), at("/mapped"), at("/six"), at("/elsewhere"))
	k.hasKeys(t, at("/good"), keySet("b25l"))
	k.failsWith(t, at("/round"), "it redirects more than 3 times")
	k.failsWith(t, at("/file"), `it leads to a URL of "file", and only http and https are allowed`)
	k.failsWith(t, at("/elsewhere"), `it leads to a URL of "gopher"`)
	k.failsWith(t, at("/metadata"), "the address 169.254.169.254 is not that of a single machine elsewhere")
	k.failsWith(t, at("/mapped"), "the address 169.254.169.254 is not that of a single machine elsewhere")
	k.failsWith(t, at("/six"), "the address ::1 is loopback, where keys are not fetched from unless --jwks-allow-addresses has it")
}

func TestAddressesThatAreRefused(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	i.publishes(keySet("b25l"))
	port := i.URL[strings.LastIndex(i.URL, ":"):]
	k := run(t, jwks.Options{Options: places.Options{Refused: []string{"10.0.0.0/8", "192.168.7.7"}}})
	reasons := map[string]string{
		i.URL: "127.0.0.1 is loopback", "http://localhost" + port: "is loopback", "http://[::1]" + port: "::1 is loopback", "http://0.0.0.0" + port: "not that of a single machine",
		"http://169.254.1.1/": "not that of a single machine", "http://[fe80::1]/": "not that of a single machine", "http://[fd00:ec2::254]/": "clouds serve metadata",
		"http://100.100.100.200/": "clouds serve metadata", "http://[64:ff9b::a9fe:a9fe]/": "169.254.169.254 is not that of", "http://224.0.0.1/": "not that of a single machine",
		"http://10.1.2.3/": "10.1.2.3 is one that --jwks-refuse-addresses refuses", "http://192.168.7.7/": "--jwks-refuse-addresses refuses",
		"ftp://127.0.0.1/": `only http and https`, "http:///keys": "has no host", "http://%zz/": "has no host",
	}
	var all []mesh.KeySource
	for url := range reasons {
		all = append(all, mesh.KeySource{URL: url})
	}
	k.want(all...)
	for url, reason := range reasons {
		k.failsWith(t, mesh.KeySource{URL: url}, reason)
	}
	require.Zero(t, i.asked.Load())
	for _, o := range []places.Options{{Allowed: []string{"x"}}, {Refused: []string{"10.0.0.0/40"}}} {
		_, err := jwks.New(jwks.Options{Options: o}, nil, prometheus.NewRegistry())
		require.ErrorContains(t, err, "is no range of addresses: write it as 10.0.0.0/8")
	}
}

func TestIssuersProveWhoTheyAre(t *testing.T) {
	t.Parallel()
	secure := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/down" {
			http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusFound)
			return
		}
		fmt.Fprint(w, keySet("b25l"))
	}))
	t.Cleanup(secure.Close)
	secure.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	at := mesh.KeySource{URL: secure.URL}
	k := run(t, impatient())
	k.want(at)
	k.failsWith(t, at, "certificate")

	o := impatient()
	o.Authority = filepath.Join(t.TempDir(), "ca.pem")
	_, err := jwks.New(o, nil, prometheus.NewRegistry())
	require.ErrorContains(t, err, "--jwks-ca: open ")
	require.NoError(t, os.WriteFile(o.Authority, []byte("none"), 0o600))
	_, err = jwks.New(o, nil, prometheus.NewRegistry())
	require.ErrorContains(t, err, "has no certificate")
	require.NoError(t, os.WriteFile(o.Authority, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw}), 0o600))
	k = run(t, o)
	down := mesh.KeySource{URL: secure.URL + "/down"}
	k.want(at, down)
	k.hasKeys(t, at, keySet("b25l"))
	k.failsWith(t, down, "it leads from https to http")
}

func TestMetricsTellOfKeys(t *testing.T) {
	t.Parallel()
	o := impatient()
	o.Refresh = time.Hour
	i, k := newIssuer(t), run(t, o)
	i.publishes(keySet("b25l"))
	k.want(mesh.KeySource{URL: i.URL}, mesh.KeySource{Issuer: "nobody"})
	k.Await(t.Context())
	require.NoError(t, testutil.GatherAndCompare(k.metrics, bytes.NewBufferString(`
# HELP pgmesh_discovery_jwks_failing Places of which the last attempt failed; /problems has the reason.
# TYPE pgmesh_discovery_jwks_failing gauge
pgmesh_discovery_jwks_failing 1
# HELP pgmesh_discovery_jwks_missing Places whose keys could not be fetched, or not again for too long: tokens of their issuers are refused.
# TYPE pgmesh_discovery_jwks_missing gauge
pgmesh_discovery_jwks_missing 1
# HELP pgmesh_discovery_jwks_sources Places that keys are fetched from.
# TYPE pgmesh_discovery_jwks_sources gauge
pgmesh_discovery_jwks_sources 2
`), "pgmesh_discovery_jwks_failing", "pgmesh_discovery_jwks_missing", "pgmesh_discovery_jwks_sources"))
}

func TestFlags(t *testing.T) {
	t.Parallel()
	var o jwks.Options
	f := pflag.NewFlagSet("test", pflag.ContinueOnError)
	o.Flags(f)
	require.NoError(t, f.Parse(nil))
	require.Equal(t, jwks.Defaults().MaxAge, o.MaxAge)
	require.Equal(t, 20*time.Minute, o.Refresh)
	require.NoError(t, f.Parse([]string{"--jwks-allow-addresses", "127.0.0.0/8,::1"}))
	require.Equal(t, []string{"127.0.0.0/8", "::1"}, o.Allowed)
}
