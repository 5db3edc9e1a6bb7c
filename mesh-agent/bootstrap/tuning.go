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

// Tuning is how Envoy does its work, beside what the mesh says. The zero value is good for most.
type Tuning struct {
	ServiceCluster string // names the application in statistics and traces; empty for one made of the app label

	// What is measured beside what is always: see statsMatcher.
	StatsPrefixes, StatsSuffixes, StatsRegexps []string
	Statsd                                     string // IP:port that statistics are sent to over UDP; empty for nobody

	OutlierLog     string // file that ejections of endpoints are written to; empty for none
	MaxConnections uint64 // how many connections clients may have open at once; 0 for any number
	MaxHeap        uint64 // bytes that Envoy may use before it turns requests away; 0 for any number
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

// apply adds it to a bootstrap.
func (t Tuning) apply(b *bootstrapv3.Bootstrap) {
	b.StatsConfig = &metricsv3.StatsConfig{StatsMatcher: t.statsMatcher()}
	// Those of a cluster come to be with its first request: most clusters of a large mesh never get one from this machine.
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
	// whole is all that there is a bounded number of: everything but clusters, of which there are as many as subsets of services in the mesh.
	whole = `^(?:[^c]|c(?:$|[^l])|cl(?:$|[^u])|clu(?:$|[^s])|clus(?:$|[^t])|clust(?:$|[^e])|cluste(?:$|[^r])|cluster(?:$|[^.])).*$`

	// ofClusters is what tells how a service is: what it is asked and how it answers, and what is in the way.
	ofClusters = `^cluster\..*\.(?:upstream_rq_(?:total|active|time|timeout|retry|[1-5]xx|pending_active|pending_overflow|rx_reset|tx_reset)|` +
		`upstream_cx_(?:total|active|connect_fail|connect_timeout|overflow|rx_bytes_total|tx_bytes_total)|` +
		`membership_(?:healthy|total)|update_(?:rejected|failure)|outlier_detection\.ejections_(?:active|enforced_total)|ssl\.(?:handshake|connection_error|fail_verify_\w+))$`
)

// agentClusters are those by which Envoy hears of everything.
const agentClusters = "cluster." + discoveryName + "."

// statsMatcher has Envoy measure what somebody looks at. In a mesh of 4,000 services, with all that there is, statistics are 428,000, 140 MB and a second
// of each start.
func (t Tuning) statsMatcher() *metricsv3.StatsMatcher {
	list := &matcherv3.ListStringMatcher{Patterns: []*matcherv3.StringMatcher{
		expression(whole), expression(ofClusters), {MatchPattern: &matcherv3.StringMatcher_Prefix{Prefix: agentClusters}},
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

// shares of the heap at which Envoy gives back what it can, and at which it turns requests away.
const shrinkAt, refuseAt = 0.95, 0.98

// overloadManager keeps Envoy within its bounds: nil if there are none.
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

// Envoy refuses regular expressions that come to more instructions than this, of which its own default is 100: a path of fifty letters is
// too much. Discovery sends no larger ones (package re2), and Istio's agents say the same.
const (
	expressionLimit   = "re2.max_program_size.error_level"
	largestExpression = 32768
)

// runtime leaves Envoy's admin API the last word, as it has without.
func (t Tuning) runtime() *bootstrapv3.LayeredRuntime {
	fields := map[string]*structpb.Value{expressionLimit: structpb.NewNumberValue(largestExpression)}
	for name, value := range t.Runtime {
		fields[name] = structpb.NewStringValue(value)
	}
	return &bootstrapv3.LayeredRuntime{Layers: []*bootstrapv3.RuntimeLayer{
		{Name: "agent", LayerSpecifier: &bootstrapv3.RuntimeLayer_StaticLayer{StaticLayer: &structpb.Struct{Fields: fields}}},
		{Name: "admin", LayerSpecifier: &bootstrapv3.RuntimeLayer_AdminLayer_{AdminLayer: &bootstrapv3.RuntimeLayer_AdminLayer{}}},
	}}
}
