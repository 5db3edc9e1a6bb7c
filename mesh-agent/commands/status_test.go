package commands_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/pgmesh/pgmesh/internal/testbench/poll"
	"github.com/pgmesh/pgmesh/mesh-agent/agenttest"
	"github.com/pgmesh/pgmesh/mesh-agent/identity/jointest"
	"github.com/pgmesh/pgmesh/mesh-agent/status"
	identityv1 "github.com/pgmesh/pgmesh/proto/pgmesh/identity/v1"
)

func TestStatus(t *testing.T) {
	t.Parallel()
	a, state := agenttest.StartMember(t)
	output, err := agenttest.Run(t, nil, "status", "--state-dir", state)
	require.NoError(t, err, output)
	require.Regexp(t, `(?m)^agent +running, for \d+s, process \d+, `, output)
	require.Regexp(t, `(?m)^identity +spiffe://mesh.example/ns/shop/sa/cart, from the mesh, until .*\(in 59m\)`, output)
	require.Regexp(t, `(?m)^discovery +127.0.0.1:\d+ = .*, for \d+s`, output)
	require.Regexp(t, `(?m)^envoy +ready, for \d+s, process \d+, 1\.\d+\.\d+, admin 127.0.0.1:\d+, 0 restarts, epoch 0`, output)
	require.NotContains(t, output, "What is wrong")

	output, err = agenttest.Run(t, nil, "status", "--config", agenttest.ConfigFile(t, "state-dir: "+state+"\n"), "-o", "json")
	require.NoError(t, err, output)
	var report status.Report
	require.NoError(t, json.Unmarshal([]byte(output), &report))
	require.Equal(t, a.Process.Pid, report.Agent.PID)
	require.Equal(t, state, report.Agent.StateDir)
	require.Equal(t, "mesh", report.Identity.Source)

	output, err = agenttest.Run(t, nil, "status", "--state-dir", state, "-o", "yaml")
	require.NoError(t, err, output)
	require.Contains(t, output, "\nidentity:\n  id: spiffe://mesh.example/ns/shop/sa/cart\n  source: mesh\n")
	a.End(t)
}

func TestStatusWhileDiscoveryIsAway(t *testing.T) {
	t.Parallel()
	d := jointest.New(t, "mesh.example", time.Hour)
	state := filepath.Join(agenttest.ShortFolder(t), "state")
	output, err := agenttest.Run(t, nil, "join", "--server", d.Address, "--token-file", agenttest.TokenFile(t, d.Token("shop", "cart", 1, 0).Text()), "--state-dir", state)
	require.NoError(t, err, output)
	a := agenttest.StartSecure(t, "--discovery", "127.0.0.1:1", "--state-dir", state, "--status", "", "--envoy-log-level", "info")
	a.Await(t, "discovery cannot be reached")
	a.Await(t, "Envoy started") // discovery is asked for settings first
	output, err = agenttest.Run(t, nil, "status", "--state-dir", state)
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	require.Equal(t, 1, exit.ExitCode())
	require.Regexp(t, `(?m)^discovery +not connected, `, output)
	require.Contains(t, output, "What is wrong:\n- discovery: none can be reached, and Envoy goes on with what it has: ")
	a.End(t)
}

func TestStatusOfARevokedMachine(t *testing.T) {
	t.Parallel()
	d := agenttest.EmptyMesh(t)
	a, state := agenttest.StartMemberOf(t, d)
	at := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	d.Revoke(&identityv1.Revocation{Enrolment: "e-1", Reason: "its disk was stolen", At: timestamppb.New(at)})
	a.Await(t, "this machine was revoked, and is no member of the mesh any more")
	var output string
	var code int
	poll.Eventually(t, func(context.Context) error {
		if output, code = statusOf(t, state); !strings.Contains(output, "turned-away") {
			return errors.New(output)
		}
		return nil
	})
	require.Equal(t, 3, code)
	require.Regexp(t, `^membership +revoked, since 2026-03-01T12:00:00Z \(\d+d\d+h ago\), the machine e-1, its disk was stolen\n`, output)
	require.Regexp(t, `(?m)^xds +turned-away, for `, output)
	again := "mesh-agent join --again --server " + d.Address
	require.Contains(t, output, "What is wrong:\n- membership: the machine e-1 was revoked, and nobody takes this machine for a member of the mesh: "+
		"have it join again with a new token, which mcp-client token create makes: "+again+"; if it was revoked by mistake: mcp-client identity restore e-1\n")
	require.Contains(t, output, "- xds: discovery refuses this proxy, and Envoy goes on with what it has: spiffe://mesh.example/ns/shop/sa/cart is no member of the mesh any more\n")

	output, code = statusOf(t, state, "-o", "json")
	require.Equal(t, 3, code)
	var report status.Report
	require.NoError(t, json.Unmarshal([]byte(output), &report))
	require.Equal(t, at, report.Revoked.Since)
	require.Equal(t, "its disk was stolen", report.Revoked.Reason)
	require.Equal(t, "machine e-1", report.Revoked.Whom)
	require.Contains(t, report.Revoked.Do, again)

	d.Revoke(nil)
	a.Await(t, "discovery takes this machine for a member of the mesh again")
	poll.Eventually(t, func(context.Context) error {
		if output, code = statusOf(t, state); code != 0 || strings.Contains(output, "revoked") {
			return fmt.Errorf("exit code %d: %s", code, output)
		}
		return nil
	})

	// A whole identity, of which it is not known since when.
	d.Revoke(&identityv1.Revocation{Identity: "ns/shop/sa/cart"})
	a.Await(t, "this machine was revoked")
	output, code = statusOf(t, state)
	require.Equal(t, 3, code)
	require.Regexp(t, `^membership +revoked, the identity shop/cart\n`, output)
	require.Contains(t, output, "nobody can join as shop/cart before mcp-client identity restore shop/cart; as another, it joins with a token for that: "+again)
	a.End(t)
}

// statusOf prints the status of the agent with a state folder.
func statusOf(t *testing.T, state string, args ...string) (output string, code int) {
	t.Helper()
	output, err := agenttest.Run(t, nil, append([]string{"status", "--state-dir", state}, args...)...)
	if exit, ended := errors.AsType[*exec.ExitError](err); ended {
		return output, exit.ExitCode()
	}
	require.NoError(t, err)
	return output, 0
}

func TestStatusWithoutAnAgent(t *testing.T) {
	t.Parallel()
	state := agenttest.ShortFolder(t)
	output, err := agenttest.Run(t, nil, "status", "--state-dir", state)
	require.Error(t, err)
	require.Contains(t, output, "no mesh-agent runs with the state folder "+state+": start it (systemctl start mesh-agent, or mesh-agent run)")
	output, err = agenttest.Run(t, nil, "logs", "--state-dir", filepath.Join(state, "none"))
	require.Error(t, err)
	require.Contains(t, output, "(there is no such folder)")
	output, err = agenttest.Run(t, nil, "status", "--state-dir", state, "-o", "jsn")
	require.Error(t, err)
	require.Contains(t, output, `-o jsn: did you mean "json"?`)

	// A killed agent leaves its socket.
	a, state := agenttest.StartMember(t)
	require.NoError(t, a.Process.Kill())
	a.AwaitEndOfLog()
	require.FileExists(t, filepath.Join(state, status.SocketName))
	output, err = agenttest.Run(t, nil, "status", "--state-dir", state)
	require.Error(t, err)
	require.Contains(t, output, "no mesh-agent runs with the state folder "+state)
	require.NotContains(t, output, "Its Envoy goes on")
}

func TestStatusAfterTheAgentWasKilled(t *testing.T) {
	t.Parallel()
	a, state := agenttest.StartMember(t, "--tie-envoy=false")
	content, err := os.ReadFile(filepath.Join(state, "envoy", "running.json"))
	require.NoError(t, err)
	var envoys []struct{ Pid int }
	require.NoError(t, json.Unmarshal(content, &envoys))
	require.Len(t, envoys, 1)
	t.Cleanup(func() { _ = syscall.Kill(envoys[0].Pid, syscall.SIGKILL) })
	require.NoError(t, a.Process.Kill())
	_ = a.Wait()
	output, err := agenttest.Run(t, nil, "status", "--state-dir", state)
	require.Error(t, err)
	require.Contains(t, output, "Its Envoy goes on with what it has, and the next agent takes it over")
}

func TestStatusWithoutPermission(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can become another account")
	}
	a, state := agenttest.StartMember(t)
	require.NoError(t, os.Chmod(filepath.Dir(state), 0o755))
	require.NoError(t, os.Chmod(state, 0o755))
	cmd := agenttest.Command("status", "--state-dir", state)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	program := filepath.Join(agenttest.ShortFolder(t), "agent") // one that the other account can run
	require.NoError(t, os.Chmod(filepath.Dir(program), 0o755))
	copyFile(t, os.Args[0], program)
	cmd.Path = program
	output, err := cmd.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(output), filepath.Join(state, status.SocketName)+" is for another account: do this as root")
	a.End(t)
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	require.NoError(t, err)
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	require.NoError(t, err)
	_, err = io.Copy(out, in)
	require.NoError(t, err)
	require.NoError(t, out.Close())
}
