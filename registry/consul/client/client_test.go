package client_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/pgmesh/pgmesh/registry/consul/client"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// asks returns a client of a server that answers so.
func asks(t *testing.T, answer http.HandlerFunc) *client.Client {
	t.Helper()
	server := httptest.NewServer(answer)
	base, err := url.Parse(server.URL)
	require.NoError(t, err)
	transport := client.NewTransport(nil, 2)
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		server.Close()
	})
	return &client.Client{
		Base: base, Token: func() string { return "secret" }, Transport: transport, Patience: 200 * time.Millisecond,
		Always: url.Values{"ns": {"team"}},
	}
}

func TestAQuestionSaysWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	var asked http.Request
	c := asks(t, func(w http.ResponseWriter, r *http.Request) {
		asked = *r
		w.Header().Set("X-Consul-Index", "8")
		w.Header().Set("X-Consul-Results-Filtered-By-ACLs", "true")
		_, _ = w.Write([]byte(`["a"]`))
	})
	var answer []string
	meta, err := c.Ask(t.Context(), client.Query{Path: "/v1/health/service/a%2Fb", Datacenter: "dc2", After: 7, Wait: time.Second, Consistent: true}, &answer)
	require.NoError(t, err)
	require.Equal(t, []string{"a"}, answer)
	require.EqualValues(t, 8, meta.Index)
	require.True(t, meta.Filtered)
	require.Equal(t, "/v1/health/service/a%2Fb", asked.URL.EscapedPath())
	require.Equal(t, "consistent=&dc=dc2&index=7&ns=team&wait=1000ms", asked.URL.RawQuery)
	require.Equal(t, "secret", asked.Header.Get("X-Consul-Token"))
}

func TestWhatIsKnownIsNotReadAgain(t *testing.T) {
	t.Parallel()
	c := asks(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Consul-Index", "8")
		_, _ = w.Write([]byte(`no JSON`))
	})
	var answer []string
	meta, err := c.Ask(t.Context(), client.Query{Path: "/v1/catalog/nodes", Known: 8}, &answer)
	require.NoError(t, err)
	require.True(t, meta.Unchanged)
	_, err = c.Ask(t.Context(), client.Query{Path: "/v1/catalog/nodes", Known: 7}, &answer)
	var garbage *client.Garbage
	require.ErrorAs(t, err, &garbage)
}

func TestRefusalsSayWhatToDo(t *testing.T) {
	t.Parallel()
	for _, refused := range []struct {
		status   int
		body     string
		says     string
		concerns bool
		crowded  bool
	}{
		{403, "ACL not found\n", "403 Forbidden to /v1/catalog/services: ACL not found: give a token that may read services and nodes", false, false},
		{500, "No path to datacenter", "No path to datacenter: is dc right?", false, false},
		{500, "No cluster leader", "500 Internal Server Error to /v1/catalog/services: No cluster leader", false, false},
		{429, "too many", "limits.http_max_conns_per_client", false, true},
		{400, "Invalid service name", "Invalid service name", true, false},
	} {
		c := asks(t, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, refused.body, refused.status) })
		_, err := c.Ask(t.Context(), client.Query{Path: "/v1/catalog/services"}, &struct{}{})
		require.ErrorContains(t, err, refused.says)
		var refusal *client.Refusal
		require.ErrorAs(t, err, &refusal)
		require.Equal(t, refused.concerns, refusal.Concerns())
		require.Equal(t, refused.crowded, refusal.Crowded())
	}
}

func TestAServerThatHangsIsGivenUp(t *testing.T) {
	t.Parallel()
	c := asks(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	_, err := c.Ask(t.Context(), client.Query{Path: "/v1/catalog/nodes"}, &struct{}{})
	require.ErrorContains(t, err, "did not answer /v1/catalog/nodes within 200ms")
}
