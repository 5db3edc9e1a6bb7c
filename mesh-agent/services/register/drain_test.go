package register_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	machinev1 "github.com/pgmesh/pgmesh/proto/pgmesh/machine/v1"
)

func TestWithdrawing(t *testing.T) {
	t.Parallel()
	d := start(t)
	a := d.agent(nil)
	s := d.next()
	s.machine()
	s.registered("cart", nil)
	a.says(t, "entry=cart-1")
	told := make(chan error, 1)
	withdraw := func() { go func() { told <- a.Withdraw(t.Context()) }() }
	drains := func(s *stream) {
		t.Helper()
		require.Equal(t, machinev1.Health_HEALTH_DRAINING, s.health().GetHealth())
	}

	// Discovery goes away before it has answered: the machine is used as before.
	withdraw()
	drains(s)
	s.end <- status.Error(codes.Unavailable, "discovery ends")
	require.ErrorContains(t, <-told, "others cannot be told")
	s = d.next()
	require.Equal(t, machinev1.Health_HEALTH_UNSPECIFIED, s.machine().GetServices()[0].GetHealth())
	s.registered("cart", nil)
	require.Eventually(t, func() bool { return a.Status().Trouble == "" }, limit, time.Millisecond)

	// So it is if nobody answers in time.
	short, cancel := context.WithCancel(t.Context())
	go func() { told <- a.Withdraw(short) }()
	drains(s)
	cancel()
	require.ErrorIs(t, <-told, context.Canceled)
	require.Equal(t, machinev1.Health_HEALTH_UNSPECIFIED, s.health().GetHealth())

	withdraw()
	drains(s)
	select {
	case <-told:
		require.FailNow(t, "nobody knows yet")
	default:
	}
	require.NoError(t, s.Send(&machinev1.RegisterResponse{Message: &machinev1.RegisterResponse_Draining{Draining: &machinev1.Draining{}}}))
	require.NoError(t, <-told)
	require.NoError(t, a.Withdraw(t.Context()), "it drains already")

	// Another discovery is told at once, and the machine can still leave.
	s.end <- status.Error(codes.Unavailable, "discovery ends")
	s = d.next()
	require.Equal(t, machinev1.Health_HEALTH_DRAINING, s.machine().GetServices()[0].GetHealth())
	a.Tell("drained a while ago")
	require.Equal(t, "drained a while ago", s.health().GetDetail())
	require.Equal(t, "draining", a.Status().Services[0].Health)

	// It is taken back, and said again.
	a.Return()
	require.Equal(t, machinev1.Health_HEALTH_UNSPECIFIED, s.health().GetHealth())
	require.Equal(t, "healthy", a.Status().Services[0].Health)
	withdraw()
	require.Equal(t, machinev1.Health_HEALTH_DRAINING, s.health().GetHealth())
	a.Return()
	require.ErrorContains(t, <-told, "taken back")
	require.Equal(t, machinev1.Health_HEALTH_UNSPECIFIED, s.health().GetHealth())
	go func() { told <- a.Leave(t.Context()) }()
	m, err := s.Recv()
	require.NoError(t, err)
	require.NotNil(t, m.GetLeaving())
	require.NoError(t, s.Send(&machinev1.RegisterResponse{Message: &machinev1.RegisterResponse_Left{Left: &machinev1.Left{}}}))
	require.NoError(t, <-told)
	require.NoError(t, a.Withdraw(t.Context()), "it has left")
}

// A drain that mcp-server cannot be told of fails at once, unless the machine ends: then it has time.
func TestWithdrawingWhileTheServerIsAway(t *testing.T) {
	t.Parallel()
	d := start(t)
	a := d.agent(nil)
	s := d.next()
	require.True(t, s.machine().GetFollows())
	s.follows("cart")
	a.says(t, "entry=cart-1")
	told := make(chan error, 1)
	go func() { told <- a.TryWithdraw(t.Context()) }()
	require.Equal(t, machinev1.Health_HEALTH_DRAINING, s.health().GetHealth())
	s.untold("mcp-server is away")
	require.EqualError(t, <-told, "mcp-server is away")
	require.Equal(t, machinev1.Health_HEALTH_UNSPECIFIED, s.health().GetHealth(), "it is used as before")

	late, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	go func() { told <- a.Withdraw(late) }()
	require.Equal(t, machinev1.Health_HEALTH_DRAINING, s.health().GetHealth())
	s.untold("mcp-server is away still")
	require.EqualError(t, <-told, "mcp-server is away still")
	require.ErrorIs(t, late.Err(), context.DeadlineExceeded, "it may come back in time")
	require.Equal(t, machinev1.Health_HEALTH_UNSPECIFIED, s.health().GetHealth())

	silent, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	require.ErrorContains(t, a.Withdraw(silent), "discovery has not said in time that mcp-server knows of it")
}

func TestReturningIsConfirmed(t *testing.T) {
	t.Parallel()
	d := start(t)
	a := d.agent(nil)
	s := d.next()
	s.machine()
	s.follows("cart")
	a.says(t, "entry=cart-1")
	require.NoError(t, a.Returned(t.Context()), "it was not drained")
	drain := func() {
		t.Helper()
		told := make(chan error, 1)
		go func() { told <- a.Withdraw(t.Context()) }()
		require.Equal(t, machinev1.Health_HEALTH_DRAINING, s.health().GetHealth())
		require.NoError(t, s.Send(&machinev1.RegisterResponse{Message: &machinev1.RegisterResponse_Draining{Draining: &machinev1.Draining{}}}))
		require.NoError(t, <-told)
	}
	serving := func() {
		t.Helper()
		require.NoError(t, s.Send(&machinev1.RegisterResponse{Message: &machinev1.RegisterResponse_Serving{Serving: &machinev1.Serving{}}}))
	}
	returned := func() <-chan error {
		told := make(chan error, 1)
		a.Return()
		go func() { told <- a.Returned(t.Context()) }()
		return told
	}

	drain()
	told := returned()
	require.Equal(t, machinev1.Health_HEALTH_UNSPECIFIED, s.health().GetHealth())
	select {
	case <-told:
		require.FailNow(t, "mcp-server does not know yet")
	default:
	}
	require.Empty(t, a.Status().Trouble, "it is on its way")
	serving()
	require.NoError(t, <-told)

	drain()
	told = returned()
	s.health()
	s.untold("mcp-server is away")
	require.EqualError(t, <-told, "mcp-server is away; it is told as soon as mcp-server registers machines again")
	require.Contains(t, a.Status().Trouble, "the mesh is not told yet that this machine is no longer drained: mcp-server is away; it is told as soon as")
	require.ErrorContains(t, a.Returned(t.Context()), "mcp-server is away", "whoever asks again is told again")
	serving()
	require.Eventually(t, func() bool { return a.Status().Trouble == "" }, limit, time.Millisecond)

	// Discovery goes away, and another is in its place that says less.
	drain()
	s.end <- status.Error(codes.Unavailable, "discovery ends")
	a.says(t, "discovery ends")
	require.ErrorContains(t, <-returned(), "it is told as soon as this machine is connected to be registered again")
	s = d.next()
	require.Equal(t, machinev1.Health_HEALTH_UNSPECIFIED, s.machine().GetServices()[0].GetHealth())
	s.registered("cart", nil)
	require.Eventually(t, func() bool { return a.Status().Trouble == "" }, limit, time.Millisecond)
	require.NoError(t, a.Returned(t.Context()))
	drain()
	require.NoError(t, <-returned(), "it is not waited for what nobody says")
}
