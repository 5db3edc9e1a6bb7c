package run_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/pgmesh/pgmesh/internal/testbench/envoytest"
	"github.com/pgmesh/pgmesh/internal/testbench/poll"
	"github.com/pgmesh/pgmesh/mesh-agent/agenttest"
	"github.com/pgmesh/pgmesh/mesh-agent/identity/jointest"
	machinev1 "github.com/pgmesh/pgmesh/proto/pgmesh/machine/v1"
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

// registrar is a discovery that registers machines, and counts their streams.
type registrar struct {
	machinev1.UnimplementedMachineServiceServer

	streams atomic.Int32
}

func (r *registrar) Register(stream machinev1.MachineService_RegisterServer) error {
	r.streams.Add(1)
	for {
		request, err := stream.Recv()
		if err != nil {
			return err
		}
		answer := &machinev1.RegisterResponse{Message: &machinev1.RegisterResponse_Registered{Registered: &machinev1.Registered{Group: "cart", Entry: "cart-a"}}}
		switch {
		case request.GetHealth().GetHealth() == machinev1.Health_HEALTH_DRAINING:
			answer.Message = &machinev1.RegisterResponse_Draining{Draining: &machinev1.Draining{}}
		case request.GetLeaving() != nil:
			answer.Message = &machinev1.RegisterResponse_Left{Left: &machinev1.Left{}}
		}
		if err := stream.Send(answer); err != nil {
			return err
		}
	}
}

// A second agent does not register over the first, and registers when that has ended.
func TestTheSecondAgentOfOneNameRegistersWhenTheFirstHasEnded(t *testing.T) {
	t.Parallel()
	r := &registrar{}
	d := agenttest.EmptyMesh(t, func(s grpc.ServiceRegistrar) { machinev1.RegisterMachineServiceServer(s, r) })
	first, folder := agenttest.StartMemberOf(t, d, "--group", "cart", "--drain-time", "0s")
	poll.Eventually(t, func(context.Context) error {
		if r.streams.Load() != 1 {
			return errors.New("the first has not registered")
		}
		return nil
	})
	second, state := startBeside(t, d, "cart", "--group", "cart", "--drain-time", "0s", "--envoy-log-level", "info")
	require.Contains(t, second.Await(t, "two agents of this machine have one name"), "this one registers no service before that one has ended")
	second.Await(t, "starting workers")
	output, err := agenttest.Run(t, nil, "status", "--state-dir", state)
	require.Error(t, err)
	require.Contains(t, output, "- registration: the machine is not connected to be registered: another agent of this machine has its name, with the state folder "+folder)
	require.EqualValues(t, 1, r.streams.Load(), "the first is as it was")

	first.End(t)
	second.Await(t, "a service of this machine is registered")
	require.EqualValues(t, 2, r.streams.Load())
	second.End(t)
}

// An Envoy that was killed with its agent may hold the address for a moment longer, which is no reason
// for the next agent to end.
func TestAnAgentWaitsForAnAdminAddressThatIsAboutToBeFree(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	d := agenttest.EmptyMesh(t)
	a, _ := startBeside(t, d, "cart", "--admin", taken.Addr().String(), "--drain-time", "0s", "--envoy-log-level", "info")
	a.Await(t, "the address of Envoy's admin API is in use; waiting")
	require.NoError(t, taken.Close())
	a.Await(t, "starting workers")
	a.End(t)
}

// An agent whose Envoy could not run ends before it does anything in the mesh.
func TestAnAgentEndsBeforeItJoinsIfTheAdminAddressIsInUse(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	r := &registrar{}
	d := agenttest.EmptyMesh(t, func(s grpc.ServiceRegistrar) { machinev1.RegisterMachineServiceServer(s, r) })
	template := filepath.Join(t.TempDir(), "own.yaml")
	require.NoError(t, os.WriteFile(template, fmt.Appendf(nil, "admin: {address: {socket_address: {port_value: %d}}}\n", taken.Addr().(*net.TCPAddr).Port), 0o600))
	for name, more := range map[string][]string{
		"flag": {"--admin", taken.Addr().String()}, "template": {"--admin", "127.0.0.1:0", "--bootstrap-template", template},
	} {
		output, err := agenttest.Run(t, nil, append([]string{
			"run", "--discovery", d.Address, "--token-file", agenttest.TokenFile(t, d.Token("shop", "cart", 1, 0).Text()), "--group", "cart",
			"--state-dir", filepath.Join(agenttest.ShortFolder(t), "state"), "--status", "", "--envoy", envoytest.Binary(t),
		}, more...)...)
		require.Error(t, err, name)
		require.Contains(t, output, "the address "+taken.Addr().String()+" of Envoy's admin API is in use (by another mesh-agent?): end the other program, or choose another address with --admin", name)
		require.NotContains(t, output, "Envoy started", name)
		require.Equal(t, name == "template", strings.Contains(output, "connected to discovery"), "%s\n%s", name, output)
	}
	require.Zero(t, r.streams.Load())
}
