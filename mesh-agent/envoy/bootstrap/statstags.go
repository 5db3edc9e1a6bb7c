package bootstrap

import (
	"slices"

	metricsv3 "github.com/envoyproxy/go-control-plane/envoy/config/metrics/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// tag says which part of a statistic's name is a label of the metric instead: what the first group
// of the pattern matches leaves the name, and the second group, or the first if it is alone, is the
// label's value.
type tag struct{ label, pattern string }

// tags are for the statistics that Envoy keeps by default (statsMatcher). Labels go by Istio's
// names where Istio has one; direction, port, subset and service take apart what cluster_name and
// tcp_prefix have as a whole.
//
// Envoy tries the patterns of a root, such as ^cluster\., on each statistic below it as it is made,
// with std::regex, also those that do not match. So the patterns of clusters and listeners, the most
// numerous, are few and have exact ends.
//
// Discovery ends the names of clusters and of HTTP filters with a semicolon, for they have dots.
// Others end before what is known to follow. No two patterns of a root have one label: Envoy warns.
var tags = []tag{
	{"cluster_name", `^cluster\.(([^;]+(?=;\.)|[^;|]+?(?=\.(?:\w+$|` + clusterScopes + `)));?\.)`},
	{"direction", `^cluster\.(inbound|outbound)\|`},
	{"port", `^cluster\.(?:in|out)bound\|(\d+)\|`},
	{"subset", `^cluster\.outbound\|\d+\|([^|]+)\|`},
	{"service", `^cluster\.outbound\|\d+\|[^|]*\|([^;]+);`},

	{"http_conn_manager_prefix", `^http\.(([^;]+(?=;\.)|[^;]+?(?=\.(?:\w+$|` + httpScopes + `)));?\.)`},
	{"direction", `^http\.(inbound|outbound)_`},
	{"port", `^http\.(?:in|out)bound_[^;]*_(\d+);`},
	{"rds_route_config", `^http\..+\.(?:scoped_)?rds\.((.+?)\.)(?=(?:vhds\.)?\w+$)`},
	{"authz_enforce_result", `^http\..+\.rbac(\.(allowed|denied))$`},
	{"authz_dry_run_action", `^http\..+\.rbac(\.istio_dry_run_(allow|deny)_)`},
	{"authz_dry_run_result", `^http\..+\.rbac(?:\.istio_dry_run_(?:allow|deny)_)?(\.shadow_(allowed|denied))$`},

	{"tcp_prefix", `^tcp\.(?!rbac\.)((.+?)\.)(?=(?:tcpproxy_tunneling\.)?\w+$)`},
	{"direction", `^tcp\.(inbound|outbound)[|_]`},
	{"port", `^tcp\.(?:in|out)bound(?:\||_\.)(\d+)`},
	{"subset", `^tcp\.outbound(?:\||_\.)\d+(?:\||_\.)([^|]+?)(?:\||_\.)`},
	{"service", `^tcp\.outbound(?:\|\d+\|[^|]*\||_\.\d+_\..*_\.)(.+?)\.(?=(?:tcpproxy_tunneling\.)?\w+$)`},

	{"listener_address", `^listener\.((` + listener + `|/.+?(?=\.\w+$|\.(?:worker_\d+|server_ssl_socket_factory)\.\w+$|\.http\.|\.ssl\.))\.)`},
	{"http_conn_manager_prefix", `^listener\.(?:` + listener + `|/.+)\.http\.(([^;]+?);?\.)\w+$`},
	{"worker_id", `^listener\.(?:` + listener + `|/.+)\.worker(_(\d+))\.\w+$`},
	{"ssl_parameter", `^listener\.(?:` + listener + `|/.+)\.ssl\.(?:ciphers|versions|curves|sigalgs|certificate)(\.(.+?))(?:\.expiration_unix_time_seconds)?$`},

	{"virtual_host", `^vhost\.((.+?)\.)(?:route|vcluster)\.`},
	{"route", `^vhost\..+\.route\.((.+)\.)\w+$`},
	{"virtual_cluster", `^vhost\..+\.vcluster\.((.+)\.)\w+$`},
	{"response_code", `^vhost\..+_rq(_(\d{3}))$`},
	{"response_code_class", `_rq_(\d)xx$`}, // upstream_rq_xx, beside which upstream_rq_total may stand in OpenMetrics

	{"mongo_prefix", `^mongo\.((.+?)\.)(?=(?:collection|cmd)\.|(?:cx_|op_|delays_|decoding_)\w+$)`},
	{"mongo_collection", `^mongo\..+\.collection\.(([^.]+)\.)`},
	{"mongo_callsite", `^mongo\..+\.callsite\.(([^.]+)\.)`},
	{"mongo_cmd", `^mongo\..+\.cmd\.((.+)\.)\w+$`},

	{"secret", `^sds\.((.+?)\.)(?=(?:control_plane\.)?\w+$)`},
	{"extension_config", `^extension_config_discovery\.\w+\.((.+)\.)\w+$`},
	{"dns_cache", `^dns_cache\.((.+)_dfp_dns_cache\.)`},
	{"thread_name", `^server\.((.+)\.)watchdog`},
	{"thread_name", `^thread_local_cluster_manager\.((.+)\.)\w+$`},
}

// clusterScopes and httpScopes follow the name of a cluster, or of an HTTP filter, where that has no
// semicolon, and where no single word follows.
const (
	clusterScopes = `(?:upstream|internal|external|canary|zone|circuit_breakers|outlier_detection|health_check|ssl|client_ssl_socket_factory|` +
		`http[123]|grpc|ext_authz|ratelimit|ring_hash_lb|maglev_lb|default|tlsMode-\w+)\.`
	httpScopes = `(?:rbac|ext_authz|jwt_authn|fault|cors|tracing|rds|scoped_rds|lua|wasm|compressor|buffer|ratelimit|on_demand|http[123]|async-client)\.`
)

// listener is the address of a listener in names of statistics, or the name of the admin API. Paths of
// sockets are apart, for they may have dots.
const listener = `[\d.]+_\d+|\[\w+\]_\d+|\w+`

// furtherTags are for statistics of clusters that Envoy keeps only if it is asked to. Elsewhere
// they would cost time and match nothing.
var furtherTags = []tag{
	{"response_code", `^cluster\..+_rq(_(\d{3}))$`},
	{"zones", `^cluster\.[^;]+;\.zone\.((.+)\.)\w+$`},
	{"ssl_parameter", `^cluster\.[^;]+;\.ssl\.(?:ciphers|versions|curves|sigalgs|certificate)(\.(.+?))(?:\.expiration_unix_time_seconds)?$`},
}

// ownTags are Envoy's own, of filters that only EnvoyFilters add. Envoy finds these quickly.
var ownTags = []string{
	"envoy.local_http_ratelimit_prefix", "envoy.local_network_ratelimit_prefix", "envoy.ratelimit_prefix", "envoy.redis_prefix", "envoy.dns_filter_prefix",
}

// statsConfig says which statistics Envoy keeps, and how their names become labels. Envoy's other
// tags are off: they take a name for ended at its first dot.
func (t Tuning) statsConfig() *metricsv3.StatsConfig {
	c := &metricsv3.StatsConfig{StatsMatcher: t.statsMatcher(), UseAllDefaultTags: wrapperspb.Bool(false)}
	for _, name := range ownTags {
		c.StatsTags = append(c.StatsTags, &metricsv3.TagSpecifier{TagName: name})
	}
	all := tags
	if len(t.StatsPrefixes)+len(t.StatsSuffixes)+len(t.StatsRegexps) > 0 {
		all = append(slices.Clip(all), furtherTags...)
	}
	for _, tag := range all {
		c.StatsTags = append(c.StatsTags, &metricsv3.TagSpecifier{TagName: tag.label, TagValue: &metricsv3.TagSpecifier_Regex{Regex: tag.pattern}})
	}
	return c
}
