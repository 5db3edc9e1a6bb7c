package envoytest_test

import (
	"fmt"
	"io"
	"net/http"
	"testing"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/pgmesh/pgmesh/internal/testbench/envoytest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// answering is a bootstrap whose one listener answers every request with "hello".
func answering(t *testing.T, port uint32) *bootstrapv3.Bootstrap {
	t.Helper()
	b := &bootstrapv3.Bootstrap{}
	require.NoError(t, protojson.Unmarshal([]byte(fmt.Sprintf(`{
	  "static_resources": {"listeners": [{
	    "name": "front",
	    "address": {"socket_address": {"address": "127.0.0.1", "port_value": %d}},
	    "filter_chains": [{"filters": [{
	      "name": "http",
	      "typed_config": {
	        "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
	        "stat_prefix": "front",
	        "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [
	          {"match": {"prefix": "/"}, "direct_response": {"status": 200, "body": {"inline_string": "hello"}}}]}]},
	        "http_filters": [{"name": "router", "typed_config": {
	          "@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"}}]
	      }}]}]}]}}`, port)), b))
	return b
}

func get(t *testing.T, address string) string {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get("http://" + address)
	require.NoError(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return string(body)
}

func TestEnvoyServesItsListenerOnceStarted(t *testing.T) {
	t.Parallel()
	e := envoytest.Start(t, answering(t, 0))

	require.Equal(t, "hello", get(t, e.ListenerAddress(t, "front").String()))
	require.Equal(t, uint64(1), e.Stat(t, "http.front.downstream_rq_2xx"))
	require.Empty(t, e.Clusters(t).GetClusterStatuses())
	require.NotEmpty(t, e.ConfigDump(t).GetConfigs())
	require.Contains(t, e.Get(t, "/ready"), "LIVE")
}

func TestEnvoyListensOnAReservedPort(t *testing.T) {
	t.Parallel()
	port := envoytest.Port(t)
	envoytest.Start(t, answering(t, port))

	require.Equal(t, "hello", get(t, fmt.Sprintf("127.0.0.1:%d", port)))
}

func TestValidateAcceptsAGoodBootstrap(t *testing.T) {
	t.Parallel()
	envoytest.Validate(t, answering(t, 0))
}
