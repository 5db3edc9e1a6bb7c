package proxyconfig_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/mesh-agent/envoy/proxyconfig"
)

func TestFieldsBecomeFlags(t *testing.T) {
	t.Parallel()
	settings, ignored, err := proxyconfig.Read(`{
		"concurrency": 0, "drainDuration": "7s", "terminationDrainDuration": "1.5s", "binaryPath": "/usr/bin/envoy", "serviceCluster": "c",
		"statsdUdpAddress": "10.0.0.1:8125", "proxyAdminPort": 15001, "statusPort": 15027, "fileFlushInterval": "2s", "fileFlushMinSizeKb": 8,
		"runtimeValues": {"b": "2", "a": "1"}, "proxyMetadata": {"SITE": "a \"b\", c"},
		"proxyStatsMatcher": {"inclusionPrefixes": ["p"], "inclusionSuffixes": ["s", "t"], "inclusionRegexps": ["x{1,2}"]},
		"connectionSettings": {"globalDownstreamConnectionLimit": 9, "perConnectionBufferLimitBytes": 1},
		"tracing": {}, "gatewayTopology": {}, "extraStatTags": ["a"], "configPath": "/etc"}`)
	require.NoError(t, err)
	require.Equal(t, []string{"configPath", "extraStatTags"}, ignored)
	values := map[string]string{}
	for _, s := range settings {
		values[s.Flag] = s.Value
	}
	require.Equal(t, map[string]string{
		"concurrency": "0", "listener-drain-time": "7s", "drain-time": "1.5s", "envoy": "/usr/bin/envoy", "service-cluster": "c", "statsd": "10.0.0.1:8125",
		"admin": "127.0.0.1:15001", "status": "127.0.0.1:15027", "file-flush-interval": "2s", "file-flush-min-size": "8", "envoy-runtime": "a=1,b=2",
		"envoy-env": `"SITE=a ""b"", c"`, "stats-inclusion-prefixes": "p", "stats-inclusion-suffixes": "s,t", "stats-inclusion-regexps": `"x{1,2}"`,
		"max-connections": "9",
	}, values)
}

func TestUnreadableFieldKeepsTheOthers(t *testing.T) {
	t.Parallel()
	settings, _, err := proxyconfig.Read(`{"concurrency": "many", "drainDuration": "7s"}`)
	require.ErrorContains(t, err, "concurrency: ")
	require.Equal(t, []proxyconfig.Setting{{Field: "drainDuration", Flag: "listener-drain-time", Value: "7s"}}, settings)
	settings, ignored, err := proxyconfig.Read("")
	require.NoError(t, err)
	require.Empty(t, settings)
	require.Empty(t, ignored)
}
