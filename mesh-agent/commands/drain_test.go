package commands_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/mesh-agent/agenttest"
)

func TestDrainAndStopCommands(t *testing.T) {
	t.Parallel()
	a, state := agenttest.StartMember(t)
	output, err := agenttest.Run(t, nil, "drain", "--state-dir", state, "--look")
	require.NoError(t, err, output)
	require.Equal(t, "running, open connections: 0\n", output)
	output, err = agenttest.Run(t, nil, "drain", "--state-dir", state, "--wait", "10s", "-o", "json")
	require.NoError(t, err, output)
	require.JSONEq(t, `{"state": "draining", "connections": 0}`, output)
	output, err = agenttest.Run(t, nil, "status", "--state-dir", state)
	require.Error(t, err)
	require.Regexp(t, `(?m)^agent +draining, `, output)
	require.Contains(t, output, "What is wrong:\n- agent: it was drained: others send nothing here until it is started again (systemctl restart mesh-agent)\n")
	require.NotContains(t, output, "- envoy")

	heard := make(chan struct{})
	go func() { defer close(heard); a.AwaitEndOfLog() }()
	output, err = agenttest.Run(t, nil, "stop", "--state-dir", state)
	require.NoError(t, err, output)
	<-heard
	require.NoError(t, a.Wait(), "exit code 0")
	output, err = agenttest.Run(t, nil, "stop", "--state-dir", state)
	require.Error(t, err)
	require.Contains(t, output, "no mesh-agent runs with the state folder "+state)
}
