package commands_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/mesh-agent/agenttest"
)

func TestEnvoyCommands(t *testing.T) {
	t.Parallel()
	a, state := agenttest.StartMember(t)
	run := func(args ...string) string {
		output, err := agenttest.Run(t, nil, append([]string{"envoy", "--state-dir", state}, args...)...)
		require.NoError(t, err, output)
		return output
	}
	require.Regexp(t, `(?m)^clusters +\d `, run("config"))
	require.Regexp(t, `(?m)^xds-grpc +STATIC +static`, run("config", "clusters", "--name", "xds"))
	require.Contains(t, run("config", "clusters", "-o", "yaml"), "name: xds-grpc")
	require.Contains(t, run("config", "bootstrap"), `"initial_fetch_timeout"`)
	require.Regexp(t, `(?m)^xds-grpc +1 +1 `, run("clusters"))
	require.Regexp(t, `(?m)^server\.live +\d$`, run("stats", "--name", "^server.live$"))
	require.Regexp(t, `(?m)^upstream +debug$`, run("log-level", "upstream=debug"))

	require.Equal(t, "LIVE\n", run("ready"))
	output, err := agenttest.Run(t, nil, "envoy", "log-level", "upstraem=debug", "--state-dir", state)
	require.Error(t, err)
	require.Contains(t, output, `Envoy has no component "upstraem": did you mean "upstream"?`)
	output, err = agenttest.Run(t, nil, "envoy", "stats", "--name", "((", "--state-dir", state)
	require.Error(t, err)
	require.Contains(t, output, "--name ((: error parsing regexp")

	output, err = agenttest.Run(t, nil, "drain", "--state-dir", state)
	require.NoError(t, err, output)
	output, err = agenttest.Run(t, nil, "envoy", "ready", "--state-dir", state)
	require.Error(t, err)
	require.Equal(t, "DRAINING\n", output)
	a.End(t)
}
