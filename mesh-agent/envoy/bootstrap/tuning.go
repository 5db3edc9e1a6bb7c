package bootstrap

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"time"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	metricsv3 "github.com/envoyproxy/go-control-plane/envoy/config/metrics/v3"
	overloadv3 "github.com/envoyproxy/go-control-plane/envoy/config/overload/v3"
	connectionsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/resource_monitors/downstream_connections/v3"
	heapv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/resource_monitors/fixed_heap/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
)

// Tuning has Envoy's settings other than the mesh's. The zero value suits most machines.
type Tuning struct {
	ServiceCluster string // the application's name in statistics and traces; by default derived from the app label

	// Statistics beyond the default ones; see statsMatcher.
	StatsPrefixes, StatsSuffixes, StatsRegexps []string
	Statsd                                     string // IP:port to send statistics to over UDP; empty for none

	OutlierLog     string // log file for ejections of endpoints; empty for none
	MaxConnections uint64 // bound on connections from clients; 0 for none
	MaxHeap        uint64 // bytes of heap before Envoy rejects requests; 0 for no bound
	Runtime        map[string]string
}

func (t Tuning) check() error {
	var wrong []error
	for _, expression := range t.StatsRegexps {
		if _, err := regexp.Compile(expression); err != nil {
			wrong = append(wrong, fmt.Errorf("regular expression of statistics %q: %w", expression, err))
		}
	}
	if t.Statsd != "" {
		host, _, err := net.SplitHostPort(t.Statsd)
		if err == nil {
			_, err = netip.ParseAddr(host)
		}
		if err != nil {
			wrong = append(wrong, fmt.Errorf("statsd address %q: expected IP:port, for Envoy resolves no name there", t.Statsd))
		}
	}
	return errors.Join(wrong...)
}

// apply adds the settings to a bootstrap.
func (t Tuning) apply(b *bootstrapv3.Bootstrap) {
	b.StatsConfig = t.statsConfig()
	// Create a cluster's statistics at its first request: in a large mesh, most clusters never get
	// one from this machine.
	b.DeferredStatOptions = &bootstrapv3.Bootstrap_DeferredStatOptions{EnableDeferredCreationStats: true}
	if t.Statsd != "" {
		b.StatsSinks = []*metricsv3.StatsSink{{
			Name: "envoy.stat_sinks.statsd",
			ConfigType: &metricsv3.StatsSink_TypedConfig{TypedConfig: pack(&metricsv3.StatsdSink{
				StatsdSpecifier: &metricsv3.StatsdSink_Address{Address: socketAddress(t.Statsd)},
			})},
		}}
	}
	if t.OutlierLog != "" {
		b.ClusterManager = &bootstrapv3.ClusterManager{OutlierDetection: &bootstrapv3.ClusterManager_OutlierDetection{EventLogPath: t.OutlierLog}}
	}
	b.OverloadManager = t.overloadManager()
	b.LayeredRuntime = t.runtime()
}

var (
	// nonClusterStats matches everything but cluster statistics. RE2 has no negative lookahead, so
	// the prefix is excluded letter by letter.
	nonClusterStats = `^(?:[^c]|c(?:$|[^l])|cl(?:$|[^u])|clu(?:$|[^s])|clus(?:$|[^t])|clust(?:$|[^e])|cluste(?:$|[^r])|cluster(?:$|[^.])).*$`

	// clusterStats matches the cluster statistics that show a service's traffic, errors and health.
	// Those of pairs of zones, which repeat them, are left out.
	clusterStats = `^cluster\.(?:[^;]+;\.(?:(?:in|ex)ternal\.|canary\.)?|[^;]+\.)(?:upstream_rq_(?:total|active|time|timeout|retry|[1-5]xx|pending_active|pending_overflow|rx_reset|tx_reset)|` +
		`upstream_cx_(?:total|active|connect_fail|connect_timeout|overflow|rx_bytes_total|tx_bytes_total)|` +
		`membership_(?:healthy|total)|update_(?:rejected|failure)|outlier_detection\.ejections_(?:active|enforced_total)|ssl\.(?:handshake|connection_error|fail_verify_\w+))$`
)

// discoveryStats is the prefix of the statistics of Envoy's connection to the agent.
const discoveryStats = "cluster." + discoveryName + "."

// statsMatcher limits Envoy to statistics that people look at. In a mesh of 4,000 services, all of
// them are 428,000: 140 MB, and a second of each start.
func (t Tuning) statsMatcher() *metricsv3.StatsMatcher {
	list := &matcherv3.ListStringMatcher{Patterns: []*matcherv3.StringMatcher{
		expression(nonClusterStats), expression(clusterStats), {MatchPattern: &matcherv3.StringMatcher_Prefix{Prefix: discoveryStats}},
	}}
	for _, p := range t.StatsPrefixes {
		list.Patterns = append(list.Patterns, &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Prefix{Prefix: p}})
	}
	for _, s := range t.StatsSuffixes {
		list.Patterns = append(list.Patterns, &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Suffix{Suffix: s}})
	}
	for _, r := range t.StatsRegexps {
		list.Patterns = append(list.Patterns, expression(r))
	}
	return &metricsv3.StatsMatcher{StatsMatcher: &metricsv3.StatsMatcher_InclusionList{InclusionList: list}}
}

func expression(text string) *matcherv3.StringMatcher {
	return &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_SafeRegex{SafeRegex: &matcherv3.RegexMatcher{Regex: text}}}
}

// Shares of the heap bound at which Envoy frees memory, and at which it rejects requests.
const shrinkAt, refuseAt = 0.95, 0.98

// overloadManager enforces the bounds; nil if there are none.
func (t Tuning) overloadManager() *overloadv3.OverloadManager {
	if t.MaxConnections == 0 && t.MaxHeap == 0 {
		return nil
	}
	m := &overloadv3.OverloadManager{RefreshInterval: durationpb.New(250 * time.Millisecond)}
	if t.MaxConnections > 0 {
		m.ResourceMonitors = append(m.ResourceMonitors, monitor("envoy.resource_monitors.global_downstream_max_connections",
			&connectionsv3.DownstreamConnectionsConfig{MaxActiveDownstreamConnections: int64(t.MaxConnections)}))
	}
	if t.MaxHeap > 0 {
		const heap = "envoy.resource_monitors.fixed_heap"
		m.ResourceMonitors = append(m.ResourceMonitors, monitor(heap, &heapv3.FixedHeapConfig{MaxHeapSizeBytes: t.MaxHeap}))
		m.Actions = []*overloadv3.OverloadAction{
			action("envoy.overload_actions.shrink_heap", heap, shrinkAt),
			action("envoy.overload_actions.stop_accepting_requests", heap, refuseAt),
		}
	}
	return m
}

func monitor(name string, config proto.Message) *overloadv3.ResourceMonitor {
	return &overloadv3.ResourceMonitor{Name: name, ConfigType: &overloadv3.ResourceMonitor_TypedConfig{TypedConfig: pack(config)}}
}

func action(name, resource string, at float64) *overloadv3.OverloadAction {
	return &overloadv3.OverloadAction{Name: name, Triggers: []*overloadv3.Trigger{{
		Name: resource, TriggerOneof: &overloadv3.Trigger_Threshold{Threshold: &overloadv3.ThresholdTrigger{Value: at}},
	}}}
}

// Envoy rejects regular expressions with more instructions than this. Its default is 100, which a
// path of fifty letters exceeds. Discovery sends none above our limit (package re2), and Istio's
// agents set the same.
const (
	programSizeKey = "re2.max_program_size.error_level"
	maxProgramSize = 32768
)

// runtime returns the runtime layers. The admin layer comes last and so wins, as it does by
// default.
func (t Tuning) runtime() *bootstrapv3.LayeredRuntime {
	fields := map[string]*structpb.Value{programSizeKey: structpb.NewNumberValue(maxProgramSize)}
	for name, value := range t.Runtime {
		fields[name] = structpb.NewStringValue(value)
	}
	return &bootstrapv3.LayeredRuntime{Layers: []*bootstrapv3.RuntimeLayer{
		{Name: "agent", LayerSpecifier: &bootstrapv3.RuntimeLayer_StaticLayer{StaticLayer: &structpb.Struct{Fields: fields}}},
		{Name: "admin", LayerSpecifier: &bootstrapv3.RuntimeLayer_AdminLayer_{AdminLayer: &bootstrapv3.RuntimeLayer_AdminLayer{}}},
	}}
}
