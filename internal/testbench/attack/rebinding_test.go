package attack

import (
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// A site whose name now leads to 127.0.0.1 cannot read the pages of programs on the operator's
// machine.
func TestASiteThatLeadsToLoopbackReadsNothing(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	for address, paths := range map[string][]string{
		m.MCPServer.HTTP(): {"/debug", "/metrics"},
		m.Discovery.HTTP(): {"/debug", "/metrics", "/problems", "/debug/proxies", "/debug/config_dump"},
	} {
		for _, path := range paths {
			code, text := m.asSite(address, path)
			require.Equal(t, http.StatusForbidden, code, "%s%s", address, path)
			require.Contains(t, text, `not to a host of the name "evil.example"`)
			require.NotContains(t, m.page(address, path), "not to a host of the name")
		}
	}
}

// asSite asks for a page as a browser does for a page of evil.example.
func (m *mesh) asSite(address, path string) (code int, text string) {
	m.t.Helper()
	request, err := http.NewRequestWithContext(m.t.Context(), http.MethodGet, "http://"+address+path, http.NoBody)
	require.NoError(m.t, err)
	request.Host = "evil.example"
	answer, err := http.DefaultClient.Do(request)
	require.NoError(m.t, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	require.NoError(m.t, err)
	return answer.StatusCode, string(body)
}
