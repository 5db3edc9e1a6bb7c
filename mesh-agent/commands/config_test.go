package commands_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/mesh-agent/agenttest"
)

func TestCommandsReadTheConfigurationFile(t *testing.T) {
	t.Parallel()
	path := agenttest.ConfigFile(t, "insecure: true\ndiscovery: 127.0.0.1:15010\nadmin: 127.0.0.1:4711\nid: of-the-file\nnode-ip: 10.0.0.7\nlog-level: error\nenvoy: /no/such/envoy\nservices: [{group: cart}]\n")

	output, err := agenttest.Run(t, nil, "bootstrap", "--config", path)
	require.NoError(t, err, output)
	require.Regexp(t, `"port_value": +4711`, output)
	require.Contains(t, output, "sidecar~10.0.0.7~of-the-file~default.svc.cluster.local")

	output, err = agenttest.Run(t, []string{"PGMESH_ID=of-the-variable", "PGMESH_CONFIG=" + path}, "bootstrap", "--node-ip", "10.0.0.8")
	require.NoError(t, err, output)
	require.Contains(t, output, "sidecar~10.0.0.8~of-the-variable~default.svc.cluster.local")

	output, err = agenttest.Run(t, nil, "run", "--config", path, "--status", "")
	require.Error(t, err)
	require.Contains(t, output, "/no/such/envoy")
	require.NotContains(t, output, "level=INFO", "log-level: error counts")
}

func TestSettingsShowTheirOrigin(t *testing.T) {
	t.Parallel()
	path := agenttest.ConfigFile(t, "discovery: 127.0.0.1:4711\nservices: [{group: cart, readiness: {tcpSocket: {port: 8080}}}]\n")
	output, err := agenttest.Run(t, []string{"PGMESH_ID=cart-1"}, "settings", "--config", path, "--drain-time", "7s")
	require.NoError(t, err, output)
	require.Regexp(t, `(?m)^discovery +127\.0\.0\.1:4711 +`+path+`:1$`, output)
	require.Regexp(t, `(?m)^id +cart-1 +PGMESH_ID$`, output)
	require.Regexp(t, `(?m)^drain-time +7s +flag$`, output)
	require.Regexp(t, `(?m)^xds +delta +default$`, output)
	require.Regexp(t, `(?m)^cart +tcp://:8080 +-$`, output)
}

func TestInvalidConfigurationFile(t *testing.T) {
	t.Parallel()
	path := agenttest.ConfigFile(t, "discovry: 127.0.0.1:4711\n")
	for _, name := range []string{"run", "bootstrap", "settings"} {
		output, err := agenttest.Run(t, nil, name, "--config", path)
		require.Error(t, err)
		require.Equal(t, "mesh-agent: "+path+`:1: "discovry" is no setting: did you mean "discovery"?`+"\n", output)
	}
	output, err := agenttest.Run(t, nil, "run", "--config", path+".none")
	require.Error(t, err)
	require.Contains(t, output, "read the configuration file: open "+path+".none: no such file or directory")
}
