package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/pgmesh/pgmesh/mesh-agent/identity/jointest"
	"github.com/pgmesh/pgmesh/mesh-agent/status"
)

// running is an agent that is a member of a mesh, and whose Envoy takes connections.
func running(t *testing.T, args ...string) (a *proc, state string) {
	t.Helper()
	d := jointest.New(t, "mesh.example", time.Hour, func(r grpc.ServiceRegistrar) {
		discoveryv3.RegisterAggregatedDiscoveryServiceServer(r, empty{})
	})
	state = filepath.Join(shortFolder(t), "state")
	a = startSecureAgent(t, append([]string{
		"--discovery", d.Address, "--token-file", tokenFile(t, d.Token("shop", "cart", 1, 0).Text()),
		"--state-dir", state, "--status", "", "--envoy-log-level", "info",
	}, args...)...)
	a.await(t, "is a member of the mesh")
	a.await(t, "starting workers")
	return a, state
}

// empty is a discovery of a mesh without anything in it.
type empty struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer
}

func (empty) DeltaAggregatedResources(stream discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) error {
	for {
		request, err := stream.Recv()
		if err != nil {
			return err
		}
		if request.GetResponseNonce() != "" {
			continue
		}
		if err := stream.Send(&discoveryv3.DeltaDiscoveryResponse{TypeUrl: request.GetTypeUrl(), Nonce: "1", SystemVersionInfo: "1"}); err != nil {
			return err
		}
	}
}

func (a *proc) end(t *testing.T) {
	t.Helper()
	require.NoError(t, a.Process.Signal(syscall.SIGTERM))
	a.awaitEndOfLog()
	require.NoError(t, a.Wait())
}

func TestStatus(t *testing.T) {
	t.Parallel()
	a, state := running(t)
	output, err := command(t, nil, "status", "--state-dir", state)
	require.NoError(t, err, output)
	require.Regexp(t, `(?m)^agent +running, since \d+s, process \d+, `, output)
	require.Regexp(t, `(?m)^identity +spiffe://mesh.example/ns/shop/sa/cart, from the mesh, until .*\(in 59m\)`, output)
	require.Regexp(t, `(?m)^discovery +127.0.0.1:\d+ = .*, since \d+s`, output)
	require.Regexp(t, `(?m)^envoy +ready, since \d+s, process \d+, 1\.\d+\.\d+, admin 127.0.0.1:\d+, 0 restarts, epoch 0`, output)
	require.NotContains(t, output, "What is wrong")

	output, err = command(t, nil, "status", "--config", configFile(t, "state-dir: "+state+"\n"), "-o", "json")
	require.NoError(t, err, output)
	var report status.Report
	require.NoError(t, json.Unmarshal([]byte(output), &report))
	require.Equal(t, a.Process.Pid, report.Agent.PID)
	require.Equal(t, state, report.Agent.StateDir)
	require.Equal(t, "mesh", report.Identity.Source)

	output, err = command(t, nil, "status", "--state-dir", state, "-o", "yaml")
	require.NoError(t, err, output)
	require.Contains(t, output, "\nidentity:\n  id: spiffe://mesh.example/ns/shop/sa/cart\n  source: mesh\n")
	a.end(t)
}

func TestStatusWhileDiscoveryIsAway(t *testing.T) {
	t.Parallel()
	d := jointest.New(t, "mesh.example", time.Hour)
	state := filepath.Join(shortFolder(t), "state")
	output, err := command(t, nil, "join", "--server", d.Address, "--token-file", tokenFile(t, d.Token("shop", "cart", 1, 0).Text()), "--state-dir", state)
	require.NoError(t, err, output)
	a := startSecureAgent(t, "--discovery", "127.0.0.1:1", "--state-dir", state, "--status", "", "--envoy-log-level", "info")
	a.await(t, "discovery cannot be reached")
	a.await(t, "Envoy started") // discovery is asked for settings first
	output, err = command(t, nil, "status", "--state-dir", state)
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	require.Equal(t, 1, exit.ExitCode())
	require.Regexp(t, `(?m)^discovery +not connected, `, output)
	require.Contains(t, output, "What is wrong:\n- discovery: none can be reached, and Envoy goes on with what it has: ")
	a.end(t)
}

func TestStatusWithoutAnAgent(t *testing.T) {
	t.Parallel()
	state := shortFolder(t)
	output, err := command(t, nil, "status", "--state-dir", state)
	require.Error(t, err)
	require.Contains(t, output, "no mesh-agent runs with the state folder "+state+": start it (systemctl start mesh-agent, or mesh-agent run)")
	output, err = command(t, nil, "logs", "--state-dir", filepath.Join(state, "none"))
	require.Error(t, err)
	require.Contains(t, output, "(there is no such folder)")
	output, err = command(t, nil, "status", "--state-dir", state, "-o", "jsn")
	require.Error(t, err)
	require.Contains(t, output, `-o jsn: did you mean "json"?`)

	// A killed agent leaves its socket.
	a, state := running(t)
	require.NoError(t, a.Process.Kill())
	a.awaitEndOfLog()
	require.FileExists(t, filepath.Join(state, status.SocketName))
	output, err = command(t, nil, "status", "--state-dir", state)
	require.Error(t, err)
	require.Contains(t, output, "no mesh-agent runs with the state folder "+state)
	require.NotContains(t, output, "Its Envoy goes on")
}

func TestStatusAfterTheAgentWasKilled(t *testing.T) {
	t.Parallel()
	a, state := running(t, "--tie-envoy=false")
	content, err := os.ReadFile(filepath.Join(state, "envoy", "running.json"))
	require.NoError(t, err)
	var envoys []struct{ Pid int }
	require.NoError(t, json.Unmarshal(content, &envoys))
	require.Len(t, envoys, 1)
	t.Cleanup(func() { _ = syscall.Kill(envoys[0].Pid, syscall.SIGKILL) })
	require.NoError(t, a.Process.Kill())
	_ = a.Wait()
	output, err := command(t, nil, "status", "--state-dir", state)
	require.Error(t, err)
	require.Contains(t, output, "Its Envoy goes on with what it has, and the next agent takes it over")
}

func TestStatusWithoutPermission(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can become another account")
	}
	a, state := running(t)
	require.NoError(t, os.Chmod(filepath.Dir(state), 0o755))
	require.NoError(t, os.Chmod(state, 0o755))
	cmd := exec.Command(os.Args[0], "status", "--state-dir", state)
	cmd.Env = append(os.Environ(), beAgent+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	program := filepath.Join(shortFolder(t), "agent") // one that the other account can run
	require.NoError(t, os.Chmod(filepath.Dir(program), 0o755))
	copyFile(t, os.Args[0], program)
	cmd.Path = program
	output, err := cmd.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(output), filepath.Join(state, status.SocketName)+" is for another account: do this as root")
	a.end(t)
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

func TestLogs(t *testing.T) {
	t.Parallel()
	a, state := running(t)
	logs := func(args ...string) string {
		output, err := command(t, nil, append([]string{"logs", "--state-dir", state}, args...)...)
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
	output, err := command(t, nil, "logs", "--state-dir", state, "--level", "warnin")
	require.Error(t, err)
	require.Contains(t, output, `level "warnin": did you mean "warning"?`)

	// Following prints new lines, and reports the agent's end.
	follow := exec.Command(os.Args[0], "logs", "-f", "-n", "1", "--state-dir", state, "--from", "agent")
	follow.Env = append(os.Environ(), beAgent+"=1")
	reader, writer, err := os.Pipe()
	require.NoError(t, err)
	defer reader.Close()
	follow.Stdout, follow.Stderr = writer, writer
	require.NoError(t, follow.Start())
	writer.Close()
	said := bufio.NewScanner(reader)
	require.True(t, said.Scan(), "the last line that there was")
	a.end(t)
	var rest []string
	for said.Scan() {
		rest = append(rest, said.Text())
	}
	require.Error(t, follow.Wait())
	require.Contains(t, rest[0], "ending Envoy")
	require.Contains(t, rest[len(rest)-1], "the agent has ended")
}

func TestEnvoyDumpsNoCore(t *testing.T) {
	t.Parallel()
	for _, each := range []struct{ flag, limit string }{{"--allow-core-dumps=false", "0"}, {"--allow-core-dumps", "[^0]"}} {
		a, state := running(t, each.flag)
		content, err := os.ReadFile(filepath.Join(state, "envoy", "running.json"))
		require.NoError(t, err)
		var envoys []struct{ Pid int }
		require.NoError(t, json.Unmarshal(content, &envoys))
		require.Len(t, envoys, 1)
		for _, pid := range []int{a.Process.Pid, envoys[0].Pid} {
			limits, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", pid))
			require.NoError(t, err)
			require.Regexp(t, `(?m)^Max core file size +\S+ +`+each.limit, string(limits))
		}
		a.end(t)
	}
}
