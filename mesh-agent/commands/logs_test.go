package commands_test

import (
	"bufio"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/mesh-agent/agenttest"
	"github.com/pgmesh/pgmesh/mesh-agent/status"
)

func TestLogs(t *testing.T) {
	t.Parallel()
	a, state := agenttest.StartMember(t)
	logs := func(args ...string) string {
		output, err := agenttest.Run(t, nil, append([]string{"logs", "--state-dir", state}, args...)...)
		require.NoError(t, err, output)
		return output
	}
	all := logs("-n", "1000")
	require.Contains(t, all, "is a member of the mesh")
	require.Contains(t, all, "starting main dispatch loop")
	require.Less(t, strings.Index(all, "is a member of the mesh"), strings.Index(all, "starting main dispatch loop"))

	require.NotContains(t, logs("--from", "agent"), "dispatch loop")
	require.NotContains(t, logs("--level", "warn"), "dispatch loop")
	require.Equal(t, 1, strings.Count(logs("-n", "1"), "\n"))
	for line := range strings.Lines(logs("--from", "envoy", "--component", "main", "-o", "json")) {
		var l status.Line
		require.NoError(t, json.Unmarshal([]byte(line), &l))
		require.Equal(t, "main", l.Component)
	}
	output, err := agenttest.Run(t, nil, "logs", "--state-dir", state, "--level", "warnin")
	require.Error(t, err)
	require.Contains(t, output, `level "warnin": did you mean "warning"?`)

	// Following prints new lines, and reports the agent's end.
	follow := agenttest.Command("logs", "-f", "-n", "1", "--state-dir", state, "--from", "agent")
	reader, writer, err := os.Pipe()
	require.NoError(t, err)
	defer reader.Close()
	follow.Stdout, follow.Stderr = writer, writer
	require.NoError(t, follow.Start())
	writer.Close()
	said := bufio.NewScanner(reader)
	require.True(t, said.Scan(), "the last line that there was")
	a.End(t)
	var rest []string
	for said.Scan() {
		rest = append(rest, said.Text())
	}
	require.Error(t, follow.Wait())
	require.Contains(t, rest[0], "ending Envoy")
	require.Contains(t, rest[len(rest)-1], "the agent has ended")
}
