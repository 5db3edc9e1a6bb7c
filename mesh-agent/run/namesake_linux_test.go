package run_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/poll"
	"github.com/pgmesh/pgmesh/mesh-agent/agenttest"
	"github.com/pgmesh/pgmesh/mesh-agent/identity/jointest"
)

// startBeside starts the agent of another member on this machine.
func startBeside(t *testing.T, d *jointest.Discovery, account string, args ...string) (a *agenttest.Proc, state string) {
	t.Helper()
	state = filepath.Join(agenttest.ShortFolder(t), "state")
	token := agenttest.TokenFile(t, d.Token("shop", account, 1, 0).Text())
	return agenttest.StartSecure(t, append([]string{"--discovery", d.Address, "--token-file", token, "--state-dir", state, "--status", ""}, args...)...), state
}

// The second of two agents without a name of their own is told, and has the name when the first has
// ended.
func TestTheSecondAgentOfOneNameIsTold(t *testing.T) {
	t.Parallel()
	d := agenttest.EmptyMesh(t)
	first, folder := agenttest.StartMemberOf(t, d)
	second, state := startBeside(t, d, "web")
	said := second.Await(t, "two agents of this machine have one name")
	require.Contains(t, said, "another agent of this machine, with the state folder "+folder+", is ")
	require.Contains(t, said, "name one otherwise (id: NAME in its file, or mesh-agent run --id NAME), or end one")
	poll.Eventually(t, func(context.Context) error {
		output, _ := agenttest.Run(t, nil, "status", "--state-dir", state)
		if !strings.Contains(output, "- agent: another agent of this machine, with the state folder "+folder) {
			return errors.New(output)
		}
		return nil
	})
	output, err := agenttest.Run(t, nil, "status", "--state-dir", folder)
	require.NoError(t, err, "%s\nthe first has nothing to change", output)

	third, state := startBeside(t, d, "web", "--id", "third")
	third.Await(t, "is a member of the mesh")
	poll.Eventually(t, func(context.Context) error {
		if output, err := agenttest.Run(t, nil, "status", "--state-dir", state); err != nil {
			return errors.New(output)
		}
		return nil
	})

	first.End(t)
	second.Await(t, "no other agent of this machine has the name of this one any more")
	second.End(t)
	third.End(t)
}
