package bootstrap_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/pgmesh/pgmesh/internal/testbench/envoytest"
	"github.com/pgmesh/pgmesh/mesh-agent/envoy/bootstrap"
)

func complete(t *testing.T, text string) (string, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "own.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	data, err := bootstrap.JSON(build(t, options()))
	require.NoError(t, err)
	merged, err := bootstrap.Complete(data, path, options())
	return string(merged), err
}

func TestTemplateIsMerged(t *testing.T) {
	t.Parallel()
	merged, err := complete(t, `
node:
  metadata: {SITE: "{{index .Labels "app"}}-of-{{.Namespace}}"}
staticResources:
  clusters:
  - name: xds-grpc
    connect_timeout: 7s
  - name: collector
    type: STRICT_DNS
    load_assignment:
      cluster_name: collector
      endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: collector.example, port_value: 4317}}}}]}]
stats_flush_interval: 30s
`)
	require.NoError(t, err)
	b := &bootstrapv3.Bootstrap{}
	require.NoError(t, protojson.Unmarshal([]byte(merged), b))
	require.Equal(t, "cart-of-shop", b.GetNode().GetMetadata().AsMap()["SITE"])
	require.Equal(t, "shop", b.GetNode().GetMetadata().AsMap()["NAMESPACE"], "what the file does not say stays")
	clusters := b.GetStaticResources().GetClusters()
	require.Len(t, clusters, 2)
	require.EqualValues(t, 7, clusters[0].GetConnectTimeout().GetSeconds())
	require.NotEmpty(t, clusters[0].GetLoadAssignment().GetEndpoints())
	require.EqualValues(t, 30, b.GetStatsFlushInterval().GetSeconds())
	envoytest.Validate(t, b)

	again, err := complete(t, "stats_flush_interval: 30s\n")
	require.NoError(t, err)
	twice, err := complete(t, "{\"stats_flush_interval\": \"30s\"}")
	require.NoError(t, err)
	require.JSONEq(t, again, twice, "JSON is as good")
}

func TestTemplateErrorsAreExplained(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                  "there is nothing in it: write fields of Envoy's bootstrap",
		"- a\n":                             "expected fields of Envoy's bootstrap at the top, such as static_resources",
		"node: {id: {{.IDs}}}\n":            "own.yaml:1:13: executing",
		"node: {{\n":                        "own.yaml:2: unclosed action",
		"node:\n  id: a\n bad\n":            "own.yaml: yaml: line ",
		"static_resources: {clusters: {}}":  "static_resources.clusters: the agent's bootstrap has a list there, and the file an object",
		"node: {metadata: {LABELS: [a]}}\n": "node.metadata.LABELS: the agent's bootstrap has an object there, and the file a list",
		"admin: 15000\n":                    "admin: the agent's bootstrap has an object there, and the file a single value",
	} {
		_, err := complete(t, text)
		require.ErrorContains(t, err, want, text)
		require.ErrorContains(t, err, "--bootstrap-template")
	}
}

func TestEnvoyAcceptsTuning(t *testing.T) {
	t.Parallel()
	o := options()
	o.Tuning = bootstrap.Tuning{
		ServiceCluster: "the-cart", StatsPrefixes: []string{"a"}, StatsSuffixes: []string{"b"}, StatsRegexps: []string{"c.*"}, Statsd: "127.0.0.1:8125",
		OutlierLog: "/dev/null", MaxConnections: 1000, MaxHeap: 1 << 30, Runtime: map[string]string{"envoy.reloadable_features.x": "false"},
	}
	b := build(t, o)
	envoytest.Validate(t, b)
	require.Equal(t, "the-cart", b.GetNode().GetCluster())

	o.Tuning = bootstrap.Tuning{StatsRegexps: []string{"("}, Statsd: "collector.example:8125"}
	_, err := bootstrap.New(o)
	require.ErrorContains(t, err, `regular expression of statistics "("`)
	require.ErrorContains(t, err, `statsd address "collector.example:8125": expected IP:port`)
}

func TestDefaultStatistics(t *testing.T) {
	t.Parallel()
	var patterns []*regexp.Regexp
	list := build(t, options()).GetStatsConfig().GetStatsMatcher().GetInclusionList().GetPatterns()
	for _, p := range list {
		text := p.GetSafeRegex().GetRegex()
		if p.GetPrefix() != "" {
			text = "^" + regexp.QuoteMeta(p.GetPrefix())
		}
		patterns = append(patterns, regexp.MustCompile(text))
	}
	for name, want := range map[string]bool{
		"server.live": true, "cluster_manager.active_clusters": true, "listener_manager.total_listeners_active": true, "c": true, "cluster": true,
		"http.outbound.rbac.denied": true, "listener.0.0.0.0_80.downstream_cx_active": true, "clustered.x": true, "runtime.load_error": true,
		"cluster.xds-grpc.upstream_rq_pending_total":                    true,
		"cluster.outbound|80||reviews.shop.upstream_rq_total":           true,
		"cluster.outbound|80||reviews.shop.upstream_rq_5xx":             true,
		"cluster.outbound|80||reviews.shop.upstream_rq_503":             false,
		"cluster.outbound|80||reviews.shop.upstream_cx_http1_total":     false,
		"cluster.outbound|80||reviews.shop.lb_zone_cluster_too_small":   false,
		"cluster.outbound|80||reviews.shop.ssl.ciphers.AES":             false,
		"cluster.outbound|80||reviews.shop.ssl.fail_verify_cert_hash":   true,
		"cluster.outbound|80||reviews.shop.membership_healthy":          true,
		"cluster.outbound|80||reviews.shop.circuit_breakers.default.cx": false,
	} {
		found := false
		for _, p := range patterns {
			found = found || p.MatchString(name)
		}
		require.Equal(t, want, found, name)
	}
}

func TestTheExampleOfTheDocumentation(t *testing.T) {
	page, err := os.ReadFile("../../../docs/agent.md")
	require.NoError(t, err)
	_, example, found := strings.Cut(string(page), "    # own.yaml\n")
	require.True(t, found)
	example, _, _ = strings.Cut(example, "\n\n")
	t.Setenv("SITE", "eu-1")
	merged, err := complete(t, regexp.MustCompile(`(?m)^    `).ReplaceAllString(example, ""))
	require.NoError(t, err)
	b := &bootstrapv3.Bootstrap{}
	require.NoError(t, protojson.Unmarshal([]byte(merged), b))
	require.Equal(t, "eu-1", b.GetNode().GetMetadata().AsMap()["SITE"])
	require.Equal(t, "collector", b.GetStaticResources().GetClusters()[1].GetName())
	envoytest.Validate(t, b)
}
