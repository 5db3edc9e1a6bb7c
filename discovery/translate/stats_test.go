package translate_test

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/pgmesh/pgmesh/internal/testbench/envoytest"
	"github.com/pgmesh/pgmesh/internal/testbench/promtest"
	agent "github.com/pgmesh/pgmesh/mesh-agent/envoy/bootstrap"
	"github.com/pgmesh/pgmesh/mesh-agent/envoy/envoyadmin"
	"github.com/pgmesh/pgmesh/mesh-agent/envoy/scrape"
)

// everything is what the proxies of all inputs are given, each name once.
type everything struct {
	clusters  map[string]*clusterv3.Cluster
	listeners map[string]*listenerv3.Listener
}

func allInputs(t *testing.T) everything {
	t.Helper()
	all := everything{map[string]*clusterv3.Cluster{}, map[string]*listenerv3.Listener{}}
	for _, file := range inputs(t) {
		in := readInput(t, file)
		out := in.translate(t, in.resources)
		for _, c := range out.clusters {
			all.clusters[c.GetName()] = c
		}
		for _, l := range out.listeners {
			withRoute := strings.Contains(file, "virtualservice/match")              // it has statistics that Envoy makes once it has the route
			alone := withRoute || strings.Contains(file, "gateway/auto-passthrough") // these listeners are the ones that are looked at
			if all.listeners[l.GetName()] != nil && !alone {
				continue
			}
			l = proto.CloneOf(l)
			if withRoute {
				l = withRoutes(t, l, out.routes)
			}
			l.BindToPort = wrapperspb.Bool(false)
			all.listeners[l.GetName()] = l
		}
	}
	return all
}

// envoy runs an Envoy that has all of it, with every statistic that it can make.
func (e everything) envoy(t *testing.T) *envoytest.Envoy {
	t.Helper()
	folder := t.TempDir()
	b, err := agent.New(agent.Options{
		Socket: filepath.Join(folder, "none.sock"), XDS: agent.Delta, Role: agent.Sidecar, Interception: agent.None, Identity: true,
		IP: "127.0.0.1", ID: "all", Namespace: "default", Domain: "default.svc.cluster.local", Admin: "127.0.0.1:0",
		Tuning: agent.Tuning{StatsRegexps: []string{".*"}},
	})
	require.NoError(t, err)
	b.DeferredStatOptions = &bootstrapv3.Bootstrap_DeferredStatOptions{}
	b.DynamicResources.CdsConfig = inFile(t, filepath.Join(folder, "clusters.json"), values(e.clusters))
	b.DynamicResources.LdsConfig = inFile(t, filepath.Join(folder, "listeners.json"), values(e.listeners))
	return envoytest.Start(t, b)
}

func values[M proto.Message](of map[string]M) (all []proto.Message) {
	for _, m := range of {
		all = append(all, m)
	}
	return all
}

// inFile writes resources to a file that Envoy reads as a source of configuration. Whatever they
// want from a server, they do not wait for.
func inFile(t *testing.T, path string, resources []proto.Message) *corev3.ConfigSource {
	t.Helper()
	all := make([]any, len(resources))
	for i, r := range resources {
		text, err := protojson.Marshal(r)
		require.NoError(t, err)
		var tree map[string]any
		require.NoError(t, json.Unmarshal(text, &tree))
		waitForNobody(tree)
		tree["@type"] = "type.googleapis.com/" + string(r.ProtoReflect().Descriptor().FullName())
		all[i] = tree
	}
	text, err := json.Marshal(map[string]any{"resources": all})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, text, 0o600))
	return &corev3.ConfigSource{
		ResourceApiVersion:    corev3.ApiVersion_V3,
		ConfigSourceSpecifier: &corev3.ConfigSource_PathConfigSource{PathConfigSource: &corev3.PathConfigSource{Path: path}},
	}
}

func waitForNobody(tree any) {
	switch tree := tree.(type) {
	case map[string]any:
		if tree["ads"] != nil || tree["apiConfigSource"] != nil {
			tree["initialFetchTimeout"] = "0.001s"
		}
		for _, v := range tree {
			waitForNobody(v)
		}
	case []any:
		for _, v := range tree {
			waitForNobody(v)
		}
	}
}

// agentsPage is the page that an agent shows of an Envoy.
func agentsPage(t *testing.T, e *envoytest.Envoy) string {
	t.Helper()
	page, err := scrape.Open(scrape.Options{Within: envoyPatience}, envoyadmin.At(func() (string, error) { return strings.TrimPrefix(e.Admin, "http://"), nil }), prometheus.NewRegistry(),
		slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	require.NoError(t, err)
	server := httptest.NewServer(page)
	defer server.Close()
	response, err := server.Client().Get(server.URL)
	require.NoError(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return string(text)
}

// envoyPatience is far more than Envoy takes to print tens of thousands of statistics.
const envoyPatience = time.Minute

// TestMetricsOfEnvoy runs an Envoy that has everything there is in a mesh.
func TestMetricsOfEnvoy(t *testing.T) {
	t.Parallel()
	all := allInputs(t)
	e := all.envoy(t)
	require.Eventually(t, func() bool { return len(e.Stats(t, `server\.worker_0\.watchdog_miss`)) > 0 }, envoyPatience, 10*time.Millisecond, "the worker has started")
	page := agentsPage(t, e)
	t.Run("what users name is in labels", func(t *testing.T) { t.Parallel(); requireEnvoysNames(t, page, all.names()) })
	t.Run("labels take names apart", func(t *testing.T) { t.Parallel(); requireLabels(t, page) })
	t.Run("promtool finds nothing wrong", func(t *testing.T) { t.Parallel(); requireLint(t, page) })
}

// requireEnvoysNames holds every metric to one name, in which there is nothing that users name:
// services, subsets, listeners, routes, secrets.
func requireEnvoysNames(t *testing.T, page string, foreign []string) {
	t.Helper()
	require.Greater(t, len(foreign), 200)
	names := regexp.MustCompile(`(?m)^# TYPE (\S+) `).FindAllStringSubmatch(page, -1)
	require.Greater(t, len(names), 300, "Envoy has made its statistics")
	for _, n := range names {
		for _, f := range foreign {
			require.NotContains(t, n[1], f)
		}
		require.NotRegexp(t, `\d_\d|worker_\d|_rq_[1-5](xx|\d\d)(_|$)|_(com|evil|sock)(_|$)|svc_cluster_local`, n[1])
	}
	require.Less(t, len(names), 600, "the names do not grow with the mesh")
	require.NotContains(t, page, `;"`, "the semicolon that ends a name is not a part of it")
}

// requireLabels shows one statistic of each sort as a metric.
func requireLabels(t *testing.T, page string) {
	t.Helper()
	lines := map[string]bool{}
	for line := range strings.Lines(page) {
		series, _, _ := strings.Cut(line, "} ")
		lines[sortedLabels(series)] = true
	}
	for _, want := range []string{
		`envoy_cluster_upstream_cx_total{cluster_name="outbound|9080|v1|reviews.default.svc.cluster.local",direction="outbound",port="9080",service="reviews.default.svc.cluster.local",subset="v1"`,
		`envoy_cluster_upstream_cx_total{cluster_name="inbound|8080||",direction="inbound",port="8080"`,
		`envoy_cluster_upstream_cx_total{cluster_name="PassthroughCluster"`,
		`envoy_cluster_circuit_breakers_default_cx_open{cluster_name="xds-grpc"`,
		`envoy_http_downstream_rq_xx{direction="inbound",http_conn_manager_prefix="inbound_10.0.0.1_8080",port="8080",response_code_class="5"`,
		`envoy_http_downstream_cx_active{http_conn_manager_prefix="admin"`,
		`envoy_http_rds_version{direction="outbound",http_conn_manager_prefix="outbound_0.0.0.0_7000",port="7000",rds_route_config="7000"`,
		`envoy_http_rbac{authz_enforce_result="denied",direction="inbound",http_conn_manager_prefix="inbound_10.0.0.1_8080",port="8080"`,
		`envoy_http_rbac{authz_dry_run_action="allow",authz_dry_run_result="denied",direction="inbound",http_conn_manager_prefix="inbound_10.0.0.1_8080",port="8080"`,
		`envoy_tcp_downstream_cx_total{direction="outbound",port="5432",service="ledger.example.com",subset="direct",tcp_prefix="outbound|5432|direct|ledger.example.com"`,
		`envoy_tcp_downstream_cx_total{direction="outbound",port="9080",service="reviews.edge.svc.cluster.local",subset="v1",tcp_prefix="outbound_.9080_.v1_.reviews.edge.svc.cluster.local"`,
		`envoy_tcp_tcpproxy_tunneling_rq_total{direction="outbound",port="5432",service="ledger.example.com",subset="post",tcp_prefix="outbound|5432|post|ledger.example.com"`,
		`envoy_listener_downstream_cx_total{listener_address="/run/web.sock"`,
		`envoy_listener_downstream_cx_total{listener_address="[fd00__3]_7001"`,
		`envoy_listener_worker_downstream_cx_total{listener_address="0.0.0.0_15006",worker_id="0"`,
		`envoy_listener_http_downstream_rq_xx{http_conn_manager_prefix="outbound_0.0.0.0_443",listener_address="0.0.0.0_443",response_code_class="2"`,
		`envoy_vhost_route_upstream_rq_retry{route="mine",virtual_host="reviews.default.svc.cluster.local:9080"`,
		`envoy_sds_update_success{secret="file-cert_testdata/tls/client.crt~testdata/tls/client.key"`,
		`envoy_dns_cache_num_hosts{dns_cache="*.wild.example.com"`,
		`envoy_server_watchdog_miss{thread_name="worker_0"`,
	} {
		require.True(t, lines[want], "there is no %s}", want)
	}
}

// sortedLabels sorts the labels of name{label="value",… by their names.
func sortedLabels(series string) string {
	name, labels, labelled := strings.Cut(series, "{")
	if !labelled {
		return series
	}
	all := strings.SplitAfter(labels, `",`)
	for i := range all {
		all[i] = strings.TrimSuffix(all[i], ",")
	}
	slices.Sort(all)
	return name + "{" + strings.Join(all, ",")
}

// names are those of the mesh that are in names of statistics, as Prometheus would write them.
func (e everything) names() (names []string) {
	written := func(name string) {
		if strings.ContainsAny(name, ".|") { // others are words that Envoy uses, too
			names = append(names, regexp.MustCompile(`\W`).ReplaceAllString(name, "_"))
		}
	}
	for name, c := range e.clusters {
		written(name)
		written(strings.TrimSuffix(c.GetAltStatName(), ";"))
		if parts := strings.Split(name, "|"); len(parts) == 4 {
			written(parts[3])
		}
	}
	for name := range e.listeners {
		written(name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// envoysManner is what promtool's linter finds odd about Envoy's metrics, and docs/metrics.md
// explains.
var envoysManner = []string{
	"no help text",
	`counter metrics should have "_total" suffix`,
	`non-counter metrics should not have "_total" suffix`,
	`metric names should not contain abbreviated units`,
	`metric name should not include type 'histogram'`,
	`use base unit "seconds" instead of "milliseconds"`,
	`metric names should be written in 'snake_case' not 'camelCase'`,
	`non-histogram and non-summary metrics should not have "_count" suffix`,
	`use base unit`,
}

// requireLint holds a page to promtool: there is nothing wrong, and nothing odd but what is Envoy's
// manner.
func requireLint(t *testing.T, page string) {
	t.Helper()
	said, err := promtest.Promtool(t, t.TempDir(), page, "check", "metrics")
	require.NotContains(t, said, "error while linting")
	if err == nil {
		return
	}
	for line := range strings.Lines(said) {
		known := slices.ContainsFunc(envoysManner, func(manner string) bool { return strings.Contains(line, manner) })
		require.True(t, known, "promtool finds something new: %s", line)
	}
}
