package envoy_test

import (
	"strings"
	"testing"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/pgmesh/pgmesh/internal/testbench/envoytest"
	"github.com/pgmesh/pgmesh/kinds/envoy"
)

const (
	fromServer   = `"eds_cluster_config": {"eds_config": {"ads": {}, "resource_api_version": "V3"}}`
	oneEndpoint  = `"load_assignment": {"cluster_name": "c", "endpoints": [{"lb_endpoints": [{"endpoint": {"address": {"socket_address": {"address": "a.example.com", "port_value": 80}}}}]}]}`
	twoEndpoints = `"load_assignment": {"cluster_name": "c", "endpoints": [{"lb_endpoints": [` +
		`{"endpoint": {"address": {"socket_address": {"address": "a.example.com", "port_value": 80}}}}, {"endpoint": {"address": {"socket_address": {"address": "b.example.com", "port_value": 80}}}}]}]}`
	subsets  = `"lb_subset_config": {"fallback_policy": "ANY_ENDPOINT", "subset_selectors": [{"keys": ["version"]}]}`
	byRandom = `"load_balancing_policy": {"policies": [{"typed_extension_config": {"name": "random", "typed_config": {"@type": "type.googleapis.com/envoy.extensions.load_balancing_policies.random.v3.Random"}}}]}`
	provided = `"load_balancing_policy": {"policies": [{"typed_extension_config": {"name": "own", "typed_config": {"@type": "type.googleapis.com/envoy.extensions.load_balancing_policies.cluster_provided.v3.ClusterProvided"}}}]}`
	forward  = `"cluster_type": {"name": "forward", "typed_config": {"@type": "type.googleapis.com/envoy.extensions.clusters.dynamic_forward_proxy.v3.ClusterConfig", "dns_cache_config": {"name": "cache"}}}`
	byDNS    = `"cluster_type": {"name": "dns", "typed_config": {"@type": "type.googleapis.com/envoy.extensions.clusters.dns.v3.DnsCluster"}}`
	tls      = `"typed_config": {"@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext"}`
	serving  = `"typed_config": {"@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext"}`
)

// TestClusterChecksMatchEnvoy verifies each case against the real Envoy.
func TestClusterChecksMatchEnvoy(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ cluster, at, reason string }{
		"original destinations":                     {`"type": "ORIGINAL_DST", "lb_policy": "CLUSTER_PROVIDED"`, "", ""},
		"original destinations, balanced":           {`"type": "ORIGINAL_DST", "lb_policy": "RANDOM"`, "lb_policy", "no policy but CLUSTER_PROVIDED"},
		"original destinations, by default":         {`"type": "ORIGINAL_DST"`, "lb_policy", "no policy but CLUSTER_PROVIDED"},
		"original destinations, by an extension":    {`"type": "ORIGINAL_DST", "lb_policy": "CLUSTER_PROVIDED", ` + byRandom, "lb_policy", "no policy but CLUSTER_PROVIDED"},
		"original destinations, provided twice":     {`"type": "ORIGINAL_DST", "lb_policy": "CLUSTER_PROVIDED", ` + provided, "", ""},
		"original destinations, by extension alone": {`"type": "ORIGINAL_DST", ` + provided, "lb_policy", "no policy but CLUSTER_PROVIDED"},
		"original destinations with endpoints":      {`"type": "ORIGINAL_DST", "lb_policy": "CLUSTER_PROVIDED", ` + oneEndpoint, "load_assignment", "has no endpoints"},
		"original destinations with subsets":        {`"type": "ORIGINAL_DST", "lb_policy": "CLUSTER_PROVIDED", ` + subsets, "lb_subset_config", "has no subsets"},
		"original destinations from a server":       {`"type": "ORIGINAL_DST", "lb_policy": "CLUSTER_PROVIDED", ` + fromServer, "eds_cluster_config", "of the type EDS alone"},
		"from a server":                             {`"type": "EDS", ` + fromServer, "", ""},
		"from a server, provided":                   {`"type": "EDS", "lb_policy": "CLUSTER_PROVIDED", ` + fromServer, "lb_policy", "choose their endpoints themselves"},
		"from a server, provided by an extension":   {`"type": "EDS", ` + fromServer + ", " + provided, "lb_policy", "choose their endpoints themselves"},
		"from no server":                            {`"type": "EDS"`, "eds_cluster_config", "needs an eds_config"},
		"an extension that is absent":               {`"type": "STATIC", "lb_policy": "LOAD_BALANCING_POLICY_CONFIG"`, "lb_policy", "no load_balancing_policy"},
		"an extension and subsets":                  {`"type": "STATIC", ` + byRandom + ", " + subsets, "lb_subset_config", "has no subsets"},
		"subsets":                                   {`"type": "STATIC", ` + subsets, "", ""},
		"a ring":                                    {`"type": "STATIC", "lb_policy": "RING_HASH", "ring_hash_lb_config": {"minimum_ring_size": 10, "maximum_ring_size": 20}`, "", ""},
		"a ring of no size":                         {`"type": "STATIC", "lb_policy": "RING_HASH", "ring_hash_lb_config": {"minimum_ring_size": 10, "maximum_ring_size": 5}`, "ring_hash_lb_config", "(10) is more than"},
		"a ring smaller than the default":           {`"type": "STATIC", "lb_policy": "RING_HASH", "ring_hash_lb_config": {"maximum_ring_size": 5}`, "ring_hash_lb_config", "(1024) is more than"},
		"a ring that is not used":                   {`"type": "STATIC", "ring_hash_lb_config": {"minimum_ring_size": 10, "maximum_ring_size": 5}`, "", ""},
		"a table":                                   {`"type": "STATIC", "lb_policy": "MAGLEV", "maglev_lb_config": {"table_size": 11}`, "", ""},
		"a table of no prime":                       {`"type": "STATIC", "lb_policy": "MAGLEV", "maglev_lb_config": {"table_size": 10}`, "maglev_lb_config", "10, which is no prime"},
		"one name":                                  {`"type": "LOGICAL_DNS", ` + oneEndpoint, "", ""},
		"two names":                                 {`"type": "LOGICAL_DNS", ` + twoEndpoints, "load_assignment", "exactly one endpoint"},
		"no name":                                   {`"type": "LOGICAL_DNS"`, "load_assignment", "exactly one endpoint"},
		"two names, each an endpoint":               {`"type": "STRICT_DNS", ` + twoEndpoints, "", ""},
		"the destination is in the request":         {forward + `, "lb_policy": "CLUSTER_PROVIDED"`, "", ""},
		"the request's destination, balanced":       {forward, "lb_policy", "no policy but CLUSTER_PROVIDED"},
		"a DNS extension":                           {byDNS, "", ""},
		"a DNS extension, provided":                 {byDNS + `, "lb_policy": "CLUSTER_PROVIDED"`, "lb_policy", "choose their endpoints themselves"},
		"TLS":                                       {`"type": "STATIC", "transport_socket": {"name": "tls", ` + tls + `}`, "", ""},
		"the TLS of servers":                        {`"type": "STATIC", "transport_socket": {"name": "tls", ` + serving + `}`, "transport_socket", "not the configuration of a transport socket of clusters"},
		"a socket without configuration":            {`"type": "STATIC", "transport_socket": {"name": "envoy.transport_sockets.tls"}`, "transport_socket", "no typed_config"},
		"a choice of the TLS of servers":            {`"type": "STATIC", "transport_socket_matches": [{"name": "tls", "match": {}, "transport_socket": {"name": "tls", ` + serving + `}}]`, "transport_socket_matches[0]", "not the configuration of a transport socket of clusters"},
		"ejections":                                 {`"type": "STATIC", "outlier_detection": {"base_ejection_time": "10s", "max_ejection_time": "20s"}`, "", ""},
		"ejections that end before they begin":      {`"type": "STATIC", "outlier_detection": {"base_ejection_time": "10s", "max_ejection_time": "1s"}`, "outlier_detection", "shorter than base_ejection_time"},
		"ejections shorter than the default":        {`"type": "STATIC", "outlier_detection": {"max_ejection_time": "1s"}`, "outlier_detection", "shorter than base_ejection_time"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := `{"name": "c", "connect_timeout": "1s", ` + test.cluster + `}`
			cluster := &clusterv3.Cluster{}
			require.NoError(t, protojson.Unmarshal([]byte(text), cluster))
			problems := envoy.Check(cluster)
			refusal := envoytest.Refusal(t, bootstrapWith(t, text))
			if test.reason == "" {
				require.Empty(t, problems)
				require.Empty(t, refusal)
				return
			}
			require.Len(t, problems, 1, "%v", problems)
			require.Equal(t, test.at, strings.TrimPrefix(problems[0].Path, "."))
			require.Contains(t, problems[0].Reason, test.reason)
			require.NotEmpty(t, refusal, "Envoy takes it")
		})
	}
}

// bootstrapWith returns a bootstrap with a cluster and a server for its endpoints.
func bootstrapWith(t *testing.T, cluster string) *bootstrapv3.Bootstrap {
	t.Helper()
	out := &bootstrapv3.Bootstrap{}
	require.NoError(t, protojson.Unmarshal([]byte(`{
		"node": {"id": "proxy", "cluster": "test"},
		"static_resources": {"clusters": [{"name": "ads", "type": "STATIC", "connect_timeout": "1s"}, `+cluster+`]},
		"dynamic_resources": {"ads_config": {"api_type": "GRPC", "transport_api_version": "V3", "grpc_services": [{"envoy_grpc": {"cluster_name": "ads"}}]}}
	}`), out))
	return out
}
