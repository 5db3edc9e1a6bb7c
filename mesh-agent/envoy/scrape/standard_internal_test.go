package scrape

import (
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/standardmetrics"
	"github.com/pgmesh/pgmesh/internal/testbench/journal"
)

// shown is Envoy's page as the agent shows it.
func shown(t *testing.T, page string, seen func(string, []byte)) string {
	t.Helper()
	out, err := io.ReadAll(newStandardReader(io.NopCloser(strings.NewReader(page)), seen, func() {}))
	require.NoError(t, err)
	return string(out)
}

func tagOf(s standardmetrics.Series) string { return escaper.Replace(s.Format()) }

func TestStandardMetricsHaveIstiosNames(t *testing.T) {
	t.Parallel()
	own := standardmetrics.Workload{Namespace: "shop", Service: "web", Revision: "v1", App: "web", Version: "v1"}
	series := func(machine string) string {
		return tagOf(standardmetrics.Series{
			Reporter: standardmetrics.Source, Own: own, Protocol: standardmetrics.HTTP, Code: "200", Flags: "-",
			Service: "outbound|80|v2|api.shop", Peer: machine + ";shop;api;v2;",
		})
	}
	got := shown(t, `# TYPE envoy_cluster_x counter
envoy_cluster_x{} 1
# TYPE envoy_istio_requests_total counter
envoy_istio_requests_total{istio="`+series("api-1")+`",istio_without="source_cluster,destination_cluster",zone="a\"b"} 3
envoy_istio_requests_total{istio="`+series("api-2")+`",istio_without="source_cluster,destination_cluster",zone="a\"b"} 4
envoy_istio_requests_total{istio="nonsense"} 4
# TYPE envoy_istio_request_bytes histogram
envoy_istio_request_bytes_bucket{istio="`+series("api-1")+`",le="0.5"} 1
envoy_istio_request_bytes_bucket{istio="`+series("api-1")+`",le="+Inf"} 2
envoy_istio_request_bytes_sum{istio="`+series("api-1")+`"} 10.5
envoy_istio_request_bytes_count{istio="`+series("api-1")+`"} 2
# TYPE envoy_istio_response_messages_total counter
envoy_istio_response_messages_total{istio="`+series("api-1")+`",istio_messages="1,1"} 4
envoy_istio_response_messages_total{istio="`+series("api-1")+`",istio_messages="2,30"} 5
envoy_istio_response_messages_total{istio="`+series("api-1")+`",istio_messages=""} 5
# TYPE envoy_server_live gauge
envoy_server_live{} 1
`, func(string, []byte) {})
	const both = `reporter="source",source_workload="web",source_canonical_service="web",source_canonical_revision="v1",` +
		`source_workload_namespace="shop",source_principal="unknown",source_app="web",source_version="v1",CLUSTER` +
		`destination_workload="api",destination_canonical_service="api",destination_canonical_revision="v2",` +
		`destination_workload_namespace="shop",destination_principal="unknown",destination_app="api",destination_version="v2",TO_CLUSTER` +
		`destination_service="api.shop",destination_service_name="api.shop",destination_service_namespace="shop",request_protocol="http",` +
		`response_code="200",grpc_response_status="",response_flags="-",connection_security_policy="unknown"`
	without := strings.NewReplacer("TO_CLUSTER", "", "CLUSTER", "").Replace(both)
	with := strings.NewReplacer("TO_CLUSTER", `destination_cluster="unknown",`, "CLUSTER", `source_cluster="unknown",`).Replace(both)
	require.Equal(t, `# TYPE envoy_cluster_x counter
envoy_cluster_x{} 1
# HELP istio_requests_total Requests.
# TYPE istio_requests_total counter
istio_requests_total{`+without+`,zone="a\"b"} 7
# HELP istio_request_bytes Sizes of requests with their headers.
# TYPE istio_request_bytes histogram
istio_request_bytes_bucket{`+with+`,le="0.5"} 1
istio_request_bytes_bucket{`+with+`,le="+Inf"} 2
istio_request_bytes_sum{`+with+`} 10.5
istio_request_bytes_count{`+with+`} 2
# HELP istio_response_messages_total Messages of gRPC that servers sent.
# TYPE istio_response_messages_total counter
istio_response_messages_total{`+with+`} 154
# TYPE envoy_server_live gauge
envoy_server_live{} 1
`, got)
}

func TestWhoHasTooManySeriesIsTold(t *testing.T) {
	t.Parallel()
	log := &journal.Journal{}
	over := &overflow{log: slog.New(slog.NewTextHandler(log, nil))}
	shown(t, "envoy_server_stats_overflow_counter{} 0\n", over.seen)
	require.Empty(t, log.String())
	shown(t, "envoy_server_stats_overflow_counter{} 3\n", over.seen)
	require.Equal(t, 1, strings.Count(log.String(), "\n"))
	require.Contains(t, log.String(), "kind=counter")
	shown(t, "envoy_server_stats_overflow_counter{} 9\n", over.seen)
	require.Equal(t, 1, strings.Count(log.String(), "\n"), "once is enough")
}
