package monitor_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/pgmesh/pgmesh/internal/monitor"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve runs a monitor until the test ends and returns a function that requests paths.
func serve(t *testing.T, ready monitor.Ready, pages ...monitor.Page) func(path string) (int, string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- monitor.Serve(ctx, l, monitor.Access{}, prometheus.NewRegistry(), ready, pages...) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	return func(path string) (int, string) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+l.Addr().String()+path, http.NoBody)
		require.NoError(t, err)
		response, err := client.Do(request)
		require.NoError(t, err)
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		return response.StatusCode, string(body)
	}
}

func ready() (string, error) { return "", nil }

func page(path, about string, shown any) monitor.Page {
	return monitor.Page{Path: path, About: about, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		monitor.WriteJSON(w, shown)
	})}
}

func TestReadyzSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	about, missing := "", errors.New("no configuration yet")
	get := serve(t, func() (string, error) { return about, missing })
	code, text := get("/readyz")
	require.Equal(t, http.StatusServiceUnavailable, code)
	require.Equal(t, "not ready: no configuration yet\n", text)
	missing = nil
	_, text = get("/readyz")
	require.Equal(t, "ready\n", text)
	about = "serving revision 7"
	_, text = get("/readyz")
	require.Equal(t, "ready: serving revision 7\n", text)
}

func TestPagesAreListed(t *testing.T) {
	t.Parallel()
	get := serve(t, ready, page("/sinks", "Lists the sinks.", []string{"a"}), page("/debug/proxies", "Lists the proxies.", nil))
	code, text := get("/sinks")
	require.Equal(t, http.StatusOK, code)
	require.Equal(t, "[\n  \"a\"\n]\n", text)

	_, text = get("/debug")
	var list []struct{ Path, About string }
	require.NoError(t, json.Unmarshal([]byte(text), &list))
	var paths []string
	for _, p := range list {
		require.NotEmpty(t, p.About)
		paths = append(paths, p.Path)
		code, _ := get(p.Path)
		require.NotEqual(t, http.StatusNotFound, code, p.Path)
	}
	require.Equal(t, []string{"/debug", "/debug/proxies", "/healthz", "/metrics", "/readyz", "/sinks"}, paths)
}

func TestMistypedPathGetsAHint(t *testing.T) {
	t.Parallel()
	get := serve(t, ready, page("/debug/proxies", "Lists the proxies.", nil))
	code, text := get("/debug/proxys")
	require.Equal(t, http.StatusNotFound, code)
	require.Equal(t, "there is no page /debug/proxys: did you mean \"/debug/proxies\"?\n", text)
	_, text = get("/")
	require.Equal(t, "there is no page /: there are /healthz, /readyz, /metrics, /debug/proxies, /debug\n", text)
}

func TestProfilesAreOptIn(t *testing.T) {
	t.Parallel()
	code, _ := serve(t, ready)("/debug/pprof/heap")
	require.Equal(t, http.StatusNotFound, code)
	get := serve(t, ready, monitor.Profiles())
	code, profile := get("/debug/pprof/heap")
	require.Equal(t, http.StatusOK, code)
	require.Equal(t, "\x1f\x8b", profile[:2], "as go tool pprof reads it")
	code, _ = get("/debug/pprof/cmdline")
	require.Equal(t, http.StatusNotFound, code, "flags may have passwords")
}
