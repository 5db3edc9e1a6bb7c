package commands_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/poll"
	"github.com/pgmesh/pgmesh/mesh-agent/agenttest"
	"github.com/pgmesh/pgmesh/mesh-agent/identity/jointest"
	"github.com/pgmesh/pgmesh/mesh-agent/status"
	identityv1 "github.com/pgmesh/pgmesh/proto/pgmesh/identity/v1"
)

// joinAgain joins with a new token beside the agent that runs, and returns the last line that it says.
func joinAgain(t *testing.T, d *jointest.Discovery, state, account string) (last string, err error) {
	t.Helper()
	token := agenttest.TokenFile(t, d.Token("shop", account, 1, 0).Text())
	output, err := agenttest.Run(t, nil, "join", "--again", "--take-over", "--server", d.Address, "--token-file", token, "--state-dir", state)
	lines := strings.Split(strings.TrimSpace(output), "\n")
	return lines[len(lines)-1], err
}

func reportOf(t *testing.T, state string) (r status.Report) {
	t.Helper()
	output, _ := statusOf(t, state, "-o", "json")
	require.NoError(t, json.Unmarshal([]byte(output), &r), output)
	return r
}

// The machine was revoked, and is a member again without a restart of anything.
func TestARunningAgentTakesUpThatItsMachineHasJoinedAgain(t *testing.T) {
	t.Parallel()
	d := agenttest.EmptyMesh(t)
	a, state := agenttest.StartMemberOf(t, d)
	d.Revoke(&identityv1.Revocation{Enrolment: "e-1"})
	a.Await(t, "this machine was revoked")
	before := reportOf(t, state)
	require.NotNil(t, before.Revoked)

	last, err := joinAgain(t, d, state, "cart")
	require.NoError(t, err, last)
	require.Regexp(t, `^this machine is spiffe://mesh.example/ns/shop/sa/cart, until \S+; the agent that runs \(process \d+\) has taken that up, and nothing was interrupted$`, last)
	poll.Eventually(t, func(context.Context) error {
		if output, code := statusOf(t, state); code != 0 {
			return errors.New(output)
		}
		return nil
	})
	after := reportOf(t, state)
	require.Nil(t, after.Revoked)
	require.Equal(t, "synced", after.XDS.State)
	require.Equal(t, before.Agent.PID, after.Agent.PID)
	require.Equal(t, before.Agent.Since, after.Agent.Since)
	require.Equal(t, before.Envoy.PID, after.Envoy.PID)
	require.Equal(t, 0, after.Envoy.Epoch)

	// As another it would have to start anew, which its Envoy would not outlive.
	last, err = joinAgain(t, d, state, "web")
	require.Error(t, err)
	require.Contains(t, last, "its Envoy is tied to it (--tie-envoy), so it cannot become another while it runs: end it and start it again")
	require.Equal(t, "spiffe://mesh.example/ns/shop/sa/cart", reportOf(t, state).Identity.ID)
	a.End(t)
}

func TestARunningAgentStartsAnewToBeAnother(t *testing.T) {
	t.Parallel()
	d := agenttest.EmptyMesh(t)
	a, state := agenttest.StartMemberOf(t, d, "--tie-envoy=false", "--drain-time", "0s", "--parent-shutdown-time", "1s")
	t.Cleanup(func() { killEnvoys(state) })
	before := reportOf(t, state)
	last, err := joinAgain(t, d, state, "web")
	require.NoError(t, err, last)
	require.Contains(t, last, "this machine is spiffe://mesh.example/ns/shop/sa/web, until ")
	require.Contains(t, last, "has started anew to take that up")
	a.Await(t, "this agent starts anew")
	after := reportOf(t, state)
	require.Equal(t, "spiffe://mesh.example/ns/shop/sa/web", after.Identity.ID)
	require.Equal(t, before.Agent.PID, after.Agent.PID)
	poll.Eventually(t, func(context.Context) error {
		if now := reportOf(t, state); now.Envoy.Epoch != 1 || !now.Envoy.Ready {
			return errors.New("its Envoy was not replaced beside the one that runs")
		}
		return nil
	})
	a.End(t)
}

// killEnvoys ends what an agent of a failed test has left.
func killEnvoys(state string) {
	content, err := os.ReadFile(filepath.Join(state, "envoy", "running.json"))
	if err != nil {
		return // the agent has ended its Envoy
	}
	var all []struct{ Pid int }
	_ = json.Unmarshal(content, &all)
	for _, one := range all {
		_ = syscall.Kill(one.Pid, syscall.SIGKILL)
	}
}

// An agent without an identity of the mesh says why joining changes nothing for it.
func TestAnAgentWithoutAnIdentityTakesUpNone(t *testing.T) {
	t.Parallel()
	d := agenttest.EmptyMesh(t)
	state := filepath.Join(agenttest.ShortFolder(t), "state")
	a := agenttest.StartInsecure(t, "--status", "", "--state-dir", state, "--envoy-log-level", "info", "--drain-time", "0s")
	a.Await(t, "starting main dispatch loop")
	last, err := joinAgain(t, d, state, "cart")
	require.Error(t, err)
	require.Contains(t, last, "goes on as it was: it runs with --insecure, and has no identity: run it without that flag")
	a.End(t)
}
