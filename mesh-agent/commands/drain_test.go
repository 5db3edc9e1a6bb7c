package commands_test

import (
	"path/filepath"
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
	require.Regexp(t, `^\{\s*"state": "draining",\s*"since": "20[^"]+",\s*"connections": 0\s*\}\s*$`, output)
	output, err = agenttest.Run(t, nil, "status", "--state-dir", state)
	require.Error(t, err)
	require.Regexp(t, `(?m)^agent +draining, `, output)
	require.Regexp(t, `(?m)^drain +drained, since \d+s, no connection is left$`, output)
	require.Regexp(t, `What is wrong:\n- agent: it was drained at \S+: others send nothing here until mesh-agent undrain, or until it is started again\n`, output)
	require.NotContains(t, output, "- envoy")

	for range 2 {
		output, err = agenttest.Run(t, nil, "undrain", "--state-dir", state)
		require.NoError(t, err, output)
		require.Equal(t, "running, open connections: 0\n", output)
	}
	output, err = agenttest.Run(t, nil, "status", "--state-dir", state)
	require.NoError(t, err, output)
	require.NotContains(t, output, "drain")

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

// TestADrainLastsUntilTheAgentEnds kills the agent of a drained machine, and ends the next.
func TestADrainLastsUntilTheAgentEnds(t *testing.T) {
	t.Parallel()
	state := filepath.Join(agenttest.ShortFolder(t), "state")
	start := func() *agenttest.Proc {
		return agenttest.StartInsecure(t, "--status", "", "--state-dir", state, "--envoy-log-level", "info", "--drain-time", "0s")
	}
	look := func() string {
		output, err := agenttest.Run(t, nil, "drain", "--state-dir", state, "--look")
		require.NoError(t, err, output)
		return output
	}
	first := start()
	first.Await(t, "starting main dispatch loop")
	output, err := agenttest.Run(t, nil, "drain", "--state-dir", state)
	require.NoError(t, err, output)
	require.NoError(t, first.Process.Kill())
	_ = first.Wait()

	second := start()
	second.Await(t, "this machine is drained, as it was under the agent before")
	second.Await(t, "starting main dispatch loop")
	require.Equal(t, output, look(), "since the same time")
	second.End(t)

	third := start()
	third.Await(t, "starting main dispatch loop")
	require.Equal(t, "running, open connections: 0\n", look())
	third.End(t)
}
