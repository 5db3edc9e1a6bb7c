package e2e

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// What the page converts is applied, and answers requests.
func TestThePageOfConvertWorks(t *testing.T) {
	t.Parallel()
	m := newAPIGateway(t)
	web, api, port := newBackend(t, "web", nil), newBackend(t, "api", nil), newPort(t)
	blocks := page(t, "../../../docs/convert.md", "listen 80;", "listen "+port+";", "10.0.0.5:8080", "127.0.0.1:"+web.port, "10.0.0.6:8080", "127.0.0.1:"+api.port, "10.0.0.7:8080", "127.0.0.1:"+api.port)
	m.converted("nginx.conf", blocks["nginx"][0])
	m.port = port
	m.answers("shop.example.com", "web")

	ask := func(path string) *answer { return m.must(request{host: "shop.example.com", path: path}) }
	a := ask("/api/carts?x=1")
	require.NoError(t, a.from("api"))
	require.Equal(t, "/v1/carts?x=1", a.seen.URI)
	require.NoError(t, ask("/apis").from("web"))
	require.Equal(t, http.StatusInternalServerError, ask("/status").status, "a route does not answer by itself")
	a = ask("/api")
	require.Equal(t, http.StatusMovedPermanently, a.status)
	require.Equal(t, "http://shop.example.com:"+port+"/api/", a.header.Get("Location"))
}

// converted applies what mcp-client makes of a file.
func (m *mesh) converted(name, text string) {
	m.t.Helper()
	dir := m.t.TempDir()
	source, result := filepath.Join(dir, name), filepath.Join(dir, "result.yaml")
	require.NoError(m.t, os.WriteFile(source, []byte(text), 0o600))
	require.NoError(m.t, os.WriteFile(result, []byte(m.mcpClient("convert", "-f", source, "--gateway", "edge")), 0o600))
	m.mcpClient("apply", "-f", result)
}

// A prefix of HAProxy that ends within a segment, and a rule by headers before it, mean what they did.
func TestWhatIsConvertedFromHAProxyAnswersAsBefore(t *testing.T) {
	t.Parallel()
	m := newAPIGateway(t)
	web, api, beta, port := newBackend(t, "web", nil), newBackend(t, "api", nil), newBackend(t, "beta", nil), newPort(t)
	m.converted("haproxy.cfg", "defaults\n mode http\nfrontend web\n bind :"+port+"\n use_backend beta if { hdr(x-beta) yes }\n use_backend api if { hdr(host) -i shop.example.com } { path_beg /api }\n"+
		" use_backend images if { path_reg \\.(gif|jpg)$ }\n default_backend web\nbackend beta\n server s 127.0.0.1:"+beta.port+"\nbackend api\n server s 127.0.0.1:"+api.port+"\nbackend images\n server s 127.0.0.1:"+beta.port+
		"\nbackend web\n server s 127.0.0.1:"+web.port+"\n")
	m.port = port
	m.answers("shop.example.com", "web")
	for path, want := range map[string]string{"/": "web", "/api": "api", "/apis/1": "api", "/a.gif": "beta", "/api/a.gif": "api"} {
		require.NoError(t, m.must(request{host: "shop.example.com", path: path}).from(want), path)
		require.NoError(t, m.must(request{host: "shop.example.com", path: path, header: http.Header{"X-Beta": {"yes"}}}).from("beta"), path)
	}
	require.NoError(t, m.must(request{host: "other.example.com", path: "/api"}).from("web"))
}
