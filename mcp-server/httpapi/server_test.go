package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/listen"
	"github.com/pgmesh/pgmesh/internal/monitor"
	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/mcp-server/serve"
)

func TestMain(m *testing.M) {
	code := pgtest.VerifyMain(m)
	os.Exit(code)
}

// api is the admin API of a complete server with its own database.
type api struct {
	t        *testing.T
	database string
	url      string
	web      string
	client   *http.Client
}

func start(t *testing.T) *api {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	started, ended := make(chan serve.Addresses, 1), make(chan error, 1)
	o := serve.Options{
		Database: pgtest.New(t), Poll: 5 * time.Second, Listen: "127.0.0.1:0", API: "127.0.0.1:0", HTTP: monitor.Options{Address: "127.0.0.1:0"},
		Plaintext: listen.Plaintext{Allowed: true}, Log: slog.New(slog.DiscardHandler),
	}
	go func() { ended <- serve.Run(ctx, o, func(a serve.Addresses) { started <- a }) }()
	transport := &http.Transport{}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		cancel()
		require.NoError(t, <-ended)
	})
	select {
	case a := <-started:
		return &api{t, o.Database, "http://" + a.API.String(), "http://" + a.HTTP.String(), &http.Client{Transport: transport}}
	case err := <-ended:
		ended <- err
		require.NoError(t, err)
		return nil
	}
}

// answer is the response to a request.
type answer struct {
	code   int
	header http.Header
	text   string
}

func (a *api) do(method, path, body string, headers ...string) answer {
	a.t.Helper()
	req, err := http.NewRequestWithContext(a.t.Context(), method, a.url+path, strings.NewReader(body))
	require.NoError(a.t, err)
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			req.Host = headers[i+1]
		}
		req.Header.Set(headers[i], headers[i+1])
	}
	got, err := a.client.Do(req)
	require.NoError(a.t, err)
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	require.NoError(a.t, err)
	return answer{got.StatusCode, got.Header, string(text)}
}

func (a *api) get(path string) answer {
	a.t.Helper()
	return a.do(http.MethodGet, path, "")
}

// tree parses the answer as JSON.
func (w answer) tree(t *testing.T) map[string]any {
	t.Helper()
	var tree map[string]any
	require.NoError(t, json.Unmarshal([]byte(w.text), &tree), w.text)
	return tree
}

// failure parses the answer as an error: its HTTP status, gRPC code and message.
func (w answer) failure(t *testing.T) (status, code int, message string) {
	t.Helper()
	tree := w.tree(t)
	require.Equal(t, "application/json", w.header.Get("Content-Type"))
	return w.code, int(tree["code"].(float64)), tree["message"].(string)
}

func compacted(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, json.Compact(&b, []byte(text)), text)
	return b.String()
}

const rule = `apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata:
  name: reviews
  namespace: shop
spec:
  host: reviews.shop
`
