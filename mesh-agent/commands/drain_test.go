package commands_test

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/internal/testbench/poll"
	"github.com/pgmesh/pgmesh/mesh-agent/agenttest"
	agentstatus "github.com/pgmesh/pgmesh/mesh-agent/status"
	machinev1 "github.com/pgmesh/pgmesh/proto/pgmesh/machine/v1"
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
	require.Regexp(t, `(?m)^drain +drained, for \d+s, no connection is left$`, output)
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

// registrar is a discovery that registers a machine, which alone takes requests for two hosts.
type registrar struct {
	machinev1.UnimplementedMachineServiceServer

	asked atomic.Int32
	away  atomic.Bool   // it says that mcp-server is
	back  chan struct{} // when closed, it says that this has ended
}

func (r *registrar) Namesakes(_ context.Context, q *machinev1.NamesakesRequest) (*machinev1.NamesakesResponse, error) {
	r.asked.Add(1)
	if q.GetId() != "cart-1" {
		return nil, status.Errorf(codes.InvalidArgument, "who is %s?", q.GetId())
	}
	return &machinev1.NamesakesResponse{Namesakes: []*machinev1.Namesake{
		{Group: "cart", Entry: "cart-a", Address: "127.0.0.1", Alone: []string{"shop.mesh", "cart.mesh"}},
		{Group: "cart", Entry: "cart-b", Address: "127.0.0.1", Alone: []string{"cart.mesh"}},
		{Group: "cart", Entry: "cart-c", Address: "10.0.0.9", Alone: []string{"of-another.mesh"}},
	}}, nil
}

func (r *registrar) Register(stream machinev1.MachineService_RegisterServer) error {
	var sending sync.Mutex
	send := func(answer *machinev1.RegisterResponse) error {
		sending.Lock()
		defer sending.Unlock()
		return stream.Send(answer)
	}
	serving := &machinev1.RegisterResponse{Message: &machinev1.RegisterResponse_Serving{Serving: &machinev1.Serving{}}}
	var telling sync.WaitGroup
	defer telling.Wait()
	telling.Go(func() {
		select {
		case <-r.back:
			_ = send(serving)
		case <-stream.Context().Done():
		}
	})
	for {
		m, err := stream.Recv()
		if err != nil {
			return err
		}
		answer := &machinev1.RegisterResponse{Message: &machinev1.RegisterResponse_Registered{Registered: &machinev1.Registered{Group: "cart", Entry: "cart-a", Follows: true}}}
		switch health := m.GetHealth(); {
		case health == nil:
		case r.away.Load():
			answer.Message = &machinev1.RegisterResponse_Untold{Untold: &machinev1.Untold{Reason: "mcp-server does not register machines now: it is away"}}
		case health.GetHealth() == machinev1.Health_HEALTH_DRAINING:
			answer.Message = &machinev1.RegisterResponse_Draining{Draining: &machinev1.Draining{}}
		default:
			answer = serving
		}
		if err := send(answer); err != nil {
			return err
		}
	}
}

// Who drains a machine while mcp-server is away is told why it fails, and who takes a drain back that the
// mesh is not told yet.
func TestADrainAndItsOppositeWhileTheServerIsAway(t *testing.T) {
	t.Parallel()
	r := &registrar{back: make(chan struct{})}
	d := agenttest.EmptyMesh(t, func(s grpc.ServiceRegistrar) { machinev1.RegisterMachineServiceServer(s, r) })
	a, state := agenttest.StartMemberOf(t, d, "--group", "cart", "--id", "cart-1", "--node-ip", "127.0.0.1", "--drain-time", "0s")
	poll.Eventually(t, func(context.Context) error {
		if now := reportOf(t, state); now.Registration.Services[0].Entry == "" {
			return errors.New("not registered")
		}
		return nil
	})
	r.away.Store(true)
	output, err := agenttest.Run(t, nil, "drain", "--state-dir", state)
	require.Error(t, err)
	require.Contains(t, output, "tell others to send nothing here: mcp-server does not register machines now: it is away; nothing was drained: try again")
	r.away.Store(false)
	output, err = agenttest.Run(t, nil, "drain", "--state-dir", state)
	require.NoError(t, err, output)

	r.away.Store(true)
	const untold = "mcp-server does not register machines now: it is away; it is told as soon as mcp-server registers machines again"
	for range 2 {
		output, err = agenttest.Run(t, nil, "undrain", "--state-dir", state)
		require.Error(t, err)
		require.Equal(t, "running, open connections: 0\nnot told yet: "+untold+"\n", output)
	}
	output, err = agenttest.Run(t, nil, "status", "--state-dir", state)
	require.Error(t, err)
	require.Contains(t, output, "What is wrong:\n- registration: the mesh is not told yet that this machine is no longer drained: "+untold+"\n")
	output, err = agenttest.Run(t, nil, "undrain", "--state-dir", state, "-o", "json")
	require.Error(t, err)
	require.Contains(t, output, `"notTold": "`+untold+`"`)

	r.away.Store(false)
	close(r.back)
	poll.Eventually(t, func(context.Context) error {
		if output, err := agenttest.Run(t, nil, "status", "--state-dir", state); err != nil {
			return errors.New(output)
		}
		return nil
	})
	output, err = agenttest.Run(t, nil, "undrain", "--state-dir", state)
	require.NoError(t, err, output)
	a.End(t)
}

func TestADrainWarnsOfServicesThatItLeavesWithNobody(t *testing.T) {
	t.Parallel()
	r := &registrar{}
	d := agenttest.EmptyMesh(t, func(s grpc.ServiceRegistrar) { machinev1.RegisterMachineServiceServer(s, r) })
	a, state := agenttest.StartMemberOf(t, d, "--group", "cart", "--id", "cart-1", "--node-ip", "127.0.0.1", "--drain-time", "0s")
	poll.Eventually(t, func(context.Context) error {
		if now := reportOf(t, state); now.Registration.Services[0].Entry == "" {
			return errors.New("not registered")
		}
		return nil
	})
	const warnings = "warning: cart.mesh is left with no healthy machine: no other takes requests for it (mcp-client machines list)\n" +
		"warning: shop.mesh is left with no healthy machine: no other takes requests for it (mcp-client machines list)\n"
	output, err := agenttest.Run(t, nil, "drain", "--state-dir", state, "--look")
	require.NoError(t, err, output)
	require.Equal(t, warnings+"running, open connections: 0\n", output)

	output, err = agenttest.Run(t, nil, "drain", "--state-dir", state, "-o", "json")
	require.NoError(t, err, output)
	said, printed, found := strings.Cut(output, "{")
	require.True(t, found, output)
	require.Equal(t, warnings, said, "before it drains, and it drains all the same")
	var drained agentstatus.DrainStatus
	require.NoError(t, json.Unmarshal([]byte("{"+printed), &drained))
	require.Equal(t, agentstatus.Draining, drained.State)
	require.Equal(t, []string{"cart.mesh", "shop.mesh"}, drained.Alone)
	require.Contains(t, a.Await(t, "services are left with no healthy machine"), `hosts="cart.mesh, shop.mesh"`)

	asked := r.asked.Load()
	output, err = agenttest.Run(t, nil, "drain", "--state-dir", state)
	require.NoError(t, err, output)
	require.Regexp(t, `^draining since \S+, open connections: 0\n$`, output, "nobody needs a machine that is drained")
	require.Equal(t, asked, r.asked.Load())
	a.End(t)
}
