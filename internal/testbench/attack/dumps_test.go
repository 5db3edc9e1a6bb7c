package attack

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// An attacker who crashes a program, or lists the processes of its machine, looks for its keys and
// tokens.
func TestNoKeyIsLeftByACrashOrSeenInAListOfProcesses(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	agent := newBystander(m).agent
	all := []int{m.MCPServer.Pid(), m.Discovery.Pid(), agent.Pid()}
	envoys := childrenOf(t, agent.Pid())
	require.NotEmpty(t, envoys)
	for _, pid := range append(all, envoys...) {
		about := func(file string) string {
			content, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
			require.NoError(t, err)
			return string(content)
		}
		require.Regexp(t, `(?m)^Max core file size +0 +0 `, about("limits"), about("comm"))
		require.Equal(t, "00000000\n", about("coredump_filter"), about("comm"))
		for what, file := range m.SecretFiles() {
			content, err := os.ReadFile(file)
			require.NoError(t, err)
			require.NotContains(t, about("cmdline")+about("environ"), strings.TrimSpace(string(content)), "%s: %s", about("comm"), what)
		}
		require.NotContains(t, about("cmdline")+about("environ"), "pgmesh_join_", about("comm"))
	}
}

// childrenOf are the processes that any thread of a process has started.
func childrenOf(t *testing.T, pid int) (children []int) {
	t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	require.NoError(t, err)
	for _, file := range threads {
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		for field := range strings.FieldsSeq(string(content)) {
			child, err := strconv.Atoi(field)
			require.NoError(t, err)
			children = append(children, child)
		}
	}
	return children
}
