package envoyview_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/pgmesh/pgmesh/internal/testbench/certtest"
	"github.com/pgmesh/pgmesh/internal/testbench/envoytest"
	"github.com/pgmesh/pgmesh/mesh-agent/envoy/envoyadmin"
	"github.com/pgmesh/pgmesh/mesh-agent/envoy/envoyview"
)

const bootstrap = `{
 "node": {"id": "a", "cluster": "b"},
 "static_resources": {
  "secrets": [{"name": "own", "tls_certificate": {"certificate_chain": {"filename": "CERT"}, "private_key": {"filename": "KEY"}}}],
  "listeners": [{"name": "web", "address": {"socket_address": {"address": "127.0.0.1", "port_value": 0}}, "filter_chains": [{
   "filters": [{"name": "hcm", "typed_config": {
    "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager", "stat_prefix": "web",
    "http_filters": [{"name": "router", "typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"}}],
    "route_config": {"name": "roads", "virtual_hosts": [{"name": "v", "domains": ["a.example", "b.example", "c.example", "d.example"],
     "routes": [{"match": {"prefix": "/"}, "direct_response": {"status": 200}}]}]}}}]}]},
   {"name": "secure", "address": {"socket_address": {"address": "127.0.0.1", "port_value": 0}}, "filter_chains": [{
   "filters": [{"name": "hcm", "typed_config": {
    "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager", "stat_prefix": "secure",
    "http_filters": [{"name": "router", "typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"}}],
    "route_config": {"name": "lanes"}}}],
   "transport_socket": {"name": "tls", "typed_config": {"@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext",
    "common_tls_context": {"tls_certificates": [{"certificate_chain": {"filename": "CERT"}, "private_key": {"filename": "KEY"}}]}}}}]}],
  "clusters": [
   {"name": "cart", "type": "STATIC", "load_assignment": {"cluster_name": "cart", "endpoints": [{"locality": {"region": "here"}, "lb_endpoints": [
    {"endpoint": {"address": {"socket_address": {"address": "127.0.0.1", "port_value": 1}}}, "load_balancing_weight": 7},
    {"endpoint": {"address": {"socket_address": {"address": "::1", "port_value": 2}}}, "health_status": "UNHEALTHY"}]}]}},
   {"name": "pipe", "type": "STATIC", "load_assignment": {"cluster_name": "pipe", "endpoints": [{"lb_endpoints": [
    {"endpoint": {"address": {"pipe": {"path": "/run/x"}}}}]}]}}]}}`

func envoy(t *testing.T) *envoyadmin.Admin {
	t.Helper()
	cert, key := certtest.NewAuthority(t).Issue(nil, "spiffe://mesh.example/ns/shop/sa/cart").Write(t, t.TempDir())
	b := &bootstrapv3.Bootstrap{}
	require.NoError(t, protojson.Unmarshal([]byte(strings.NewReplacer("CERT", cert, "KEY", key).Replace(bootstrap)), b))
	e := envoytest.Start(t, b)
	return envoyadmin.At(func() (string, error) { return strings.TrimPrefix(e.Admin, "http://"), nil })
}

func views() map[string]envoyview.View {
	all := map[string]envoyview.View{"config": envoyview.Overview}
	for _, v := range envoyview.Live {
		all[v.Name] = v
	}
	for _, v := range envoyview.Config {
		all["config "+v.Name] = v
	}
	return all
}

func TestTablesOfARealEnvoy(t *testing.T) {
	t.Parallel()
	e := envoy(t)
	all := views()
	for name, want := range map[string][]string{
		"clusters":  {`(?m)^CLUSTER +ENDPOINTS +HEALTHY`, `(?m)^cart +2 +1 +0 +0 +0$`, `(?m)^pipe +1 +1 `},
		"endpoints": {`(?m)^127\.0\.0\.1:1 +healthy +7 +here +0 +0 +0 +cart$`, `(?m)^\[::1\]:2 +unhealthy +1 +here .* cart$`, `(?m)^/run/x +healthy .* pipe$`},
		"listeners": {`(?m)^web +127\.0\.0\.1:\d+$`},
		"certs":     {`(?m)^own +localhost, spiffe://mesh.example/ns/shop/sa/cart, 127.0.0.1 +[0-9a-f]+ +20\d\d-.*Z +\d+$`},
		"config": {
			`(?m)^clusters +2 +0 +0 +20\d\d-`, `(?m)^listeners +2 +0 +0 +20\d\d-`, `(?m)^routes +2 +0 +0 +20\d\d-`, `(?m)^secrets +1 +0 +0 +-$`, `(?m)^endpoints +2 `,
		},
		"config clusters":  {`(?m)^cart +STATIC +static +- +20\d\d-`},
		"config endpoints": {`(?m)^cart +2 +1 +static `},
		"config listeners": {`(?m)^web +127\.0\.0\.1:0 +1 +static `},
		"config routes":    {`(?m)^roads +1 +a\.example, b\.example, c\.example and 1 more +static `, `(?m)^lanes +0 +- +static `},
		"config secrets":   {`(?m)^own +certificate +`},
	} {
		answer, err := e.Get(t.Context(), all[name].URL(""))
		require.NoError(t, err, name)
		var table bytes.Buffer
		require.NoError(t, all[name].Write(&table, answer, regexp.MustCompile("")), name)
		answer.Close()
		for _, w := range want {
			require.Regexp(t, w, table.String(), name)
		}
	}
}

func TestFilterByName(t *testing.T) {
	t.Parallel()
	e := envoy(t)
	for name, v := range views() {
		if v.NameParam == "" || name == "config" || name == "config secrets" {
			continue
		}
		answer, err := e.Get(t.Context(), v.URL("ar|oad|we"))
		require.NoError(t, err, name)
		raw, err := v.Raw(answer)
		answer.Close()
		require.NoError(t, err, name)
		text, err := json.Marshal(raw)
		require.NoError(t, err)
		require.NotContains(t, string(text), "pipe", name)
		require.NotContains(t, string(text), `"secure"`, name)
		require.Regexp(t, `"(cart|roads|web)"`, string(text), name)

		var table bytes.Buffer
		require.NoError(t, v.Write(&table, bytes.NewReader(text), regexp.MustCompile("^nothing$")))
		require.Equal(t, "Envoy has none, or none of that name\n", table.String())
	}
	_, err := e.Get(t.Context(), views()["config clusters"].URL("(("))
	refused := &envoyadmin.RefusedError{}
	require.ErrorAs(t, err, &refused)
	require.Equal(t, http.StatusBadRequest, refused.Code)
}

// dynamic is Envoy's answer with listeners from discovery, which the test's Envoy does not have.
const dynamic = `{"configs": [{"@type": "x", "dynamic_listeners": [
 {"name": "both", "active_state": {"version_info": "7", "last_updated": "2026-01-02T03:04:05Z", "listener": {"name": "both",
   "address": {"socket_address": {"address": "0.0.0.0", "port_value": 15006}}, "filter_chains": [{}, {}], "default_filter_chain": {}}},
  "warming_state": {"version_info": "8", "last_updated": "2026-01-02T03:04:06Z", "listener": {"name": "both"}}},
 {"name": "bad", "error_state": {"details": "it has no address", "last_update_attempt": "2026-01-02T03:04:07Z"}},
 {"name": "new", "warming_state": {"version_info": "8", "last_updated": "2026-01-02T03:04:09Z", "listener": {"name": "new"}}}]}]}`

func TestDynamicListeners(t *testing.T) {
	t.Parallel()
	rows, err := views()["config listeners"].Rows(strings.NewReader(dynamic), regexp.MustCompile(""))
	require.NoError(t, err)
	require.Equal(t, [][]string{
		{"both", "0.0.0.0:15006", "3", "active", "7", "2026-01-02T03:04:05Z"},
		{"both", "", "0", "warming", "8", "2026-01-02T03:04:06Z"},
		{"bad", "", "", "refused: it has no address", "", "2026-01-02T03:04:07Z"},
		{"new", "", "0", "warming", "8", "2026-01-02T03:04:09Z"},
	}, rows)
	rows, err = envoyview.Overview.Rows(strings.NewReader(dynamic), nil)
	require.NoError(t, err)
	require.Equal(t, [][]string{{"listeners", "2", "1", "1", "2026-01-02T03:04:09Z"}}, rows)
}

func TestLogLevelsOfARealEnvoy(t *testing.T) {
	t.Parallel()
	e := envoy(t)
	before, err := envoyview.ReadComponents(t.Context(), e)
	require.NoError(t, err)
	require.Equal(t, "warning", before["upstream"])

	changes, err := before.ParseChanges([]string{"upstream=debug,config:trace", "warn"})
	require.NoError(t, err)
	require.NoError(t, envoyview.Apply(t.Context(), e, changes))
	now, err := envoyview.ReadComponents(t.Context(), e)
	require.NoError(t, err)
	require.Equal(t, []string{"debug", "trace", "warning"}, []string{now["upstream"], now["config"], now["main"]})

	_, err = before.ParseChanges([]string{"upstraem=debug", "config=verbos", "loud"})
	require.ErrorContains(t, err, `Envoy has no component "upstraem": did you mean "upstream"?`)
	require.ErrorContains(t, err, `"loud" is no log level: choose one of trace, debug`)
}

func TestStatisticsOfARealEnvoy(t *testing.T) {
	t.Parallel()
	e := envoy(t)
	answer, err := e.Get(t.Context(), envoyview.StatsPath(`^cluster\.cart\.membership`, "table", false))
	require.NoError(t, err)
	defer answer.Close()
	var table bytes.Buffer
	require.NoError(t, envoyview.WriteStats(&table, answer))
	require.Regexp(t, `(?m)^cluster\.cart\.membership_total +2$`, table.String())
	require.NotContains(t, table.String(), "pipe")

	text, err := e.Text(t.Context(), envoyview.StatsPath("", "prometheus", true))
	require.NoError(t, err)
	require.Contains(t, text, "# TYPE envoy_cluster_membership_total gauge")
	text, err = e.Text(t.Context(), envoyview.StatsPath("membership", "json", true))
	require.NoError(t, err)
	require.True(t, json.Valid([]byte(text)))
}

func TestEnvoyIsNotRunning(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	_, err := envoyadmin.OfStateDir(folder).Text(t.Context(), "/ready")
	require.ErrorIs(t, err, envoyadmin.ErrNotRunning)
	require.ErrorContains(t, err, "no Envoy runs with the state folder "+folder+": start the agent")

	require.NoError(t, os.MkdirAll(folder+"/envoy/run", 0o700))
	require.NoError(t, os.WriteFile(folder+"/envoy/run/admin", []byte("127.0.0.1:1"), 0o600))
	_, err = envoyadmin.OfStateDir(folder).Text(t.Context(), "/ready")
	require.ErrorIs(t, err, envoyadmin.ErrNotRunning)
	require.ErrorContains(t, err, "connection refused")

	require.NoError(t, os.WriteFile(folder+"/envoy/run/admin", []byte("192.0.2.1:80"), 0o600))
	_, err = envoyadmin.OfStateDir(folder).Text(t.Context(), "/ready")
	require.ErrorContains(t, err, `at "192.0.2.1:80", which is no address of loopback`)
}

func TestClientConnectionsAreCounted(t *testing.T) {
	t.Parallel()
	cert, key := certtest.NewAuthority(t).Issue(nil, "spiffe://mesh.example/ns/shop/sa/cart").Write(t, t.TempDir())
	b := &bootstrapv3.Bootstrap{}
	require.NoError(t, protojson.Unmarshal([]byte(strings.NewReplacer("CERT", cert, "KEY", key).Replace(bootstrap)), b))
	running := envoytest.Start(t, b)
	e := envoyadmin.At(func() (string, error) { return strings.TrimPrefix(running.Admin, "http://"), nil })
	open, err := e.Downstream(t.Context())
	require.NoError(t, err)
	require.Zero(t, open)

	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport, Timeout: 10 * time.Second}).Get("http://" + running.ListenerAddress(t, "web").String() + "/")
	require.NoError(t, err)
	response.Body.Close()
	open, err = e.Downstream(t.Context())
	require.NoError(t, err)
	require.Equal(t, envoyadmin.Downstream{Connections: 1, HTTP: 1}, open)
}
