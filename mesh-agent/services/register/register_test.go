package register_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/pgmesh/pgmesh/internal/testbench/journal"
	"github.com/pgmesh/pgmesh/mesh-agent/host/statedir"
	"github.com/pgmesh/pgmesh/mesh-agent/services/register"
	machinev1 "github.com/pgmesh/pgmesh/proto/pgmesh/machine/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const limit = 20 * time.Second

// discovery is a discovery that hands each registration stream to the test.
type discovery struct {
	machinev1.UnimplementedMachineServiceServer

	t       *testing.T
	streams chan *stream
	at      string
}

// stream is a connected machine.
type stream struct {
	machinev1.MachineService_RegisterServer

	t   *testing.T
	end chan error
}

func (d *discovery) Register(s machinev1.MachineService_RegisterServer) error {
	x := &stream{s, d.t, make(chan error, 1)}
	select {
	case d.streams <- x:
	case <-s.Context().Done():
		return s.Context().Err()
	}
	select {
	case err := <-x.end:
		return err
	case <-s.Context().Done():
		return s.Context().Err()
	}
}

func start(t *testing.T) *discovery {
	t.Helper()
	d := &discovery{t: t, streams: make(chan *stream)}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	d.at = l.Addr().String()
	server := grpc.NewServer()
	machinev1.RegisterMachineServiceServer(server, d)
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(l) }()
	t.Cleanup(func() { server.Stop(); <-done })
	return d
}

// next returns the next stream of a machine.
func (d *discovery) next() *stream {
	d.t.Helper()
	select {
	case s := <-d.streams:
		return s
	case <-time.After(limit):
		require.FailNow(d.t, "no machine comes")
		return nil
	}
}

func (s *stream) machine() *machinev1.Machine {
	s.t.Helper()
	m, err := s.Recv()
	require.NoError(s.t, err)
	require.NotNil(s.t, m.GetMachine())
	return m.GetMachine()
}

func (s *stream) health() *machinev1.HealthReport {
	s.t.Helper()
	m, err := s.Recv()
	require.NoError(s.t, err)
	require.NotNil(s.t, m.GetHealth(), m)
	return m.GetHealth()
}

func (s *stream) registered(group string, probe *machinev1.Probe) {
	s.t.Helper()
	require.NoError(s.t, s.Send(&machinev1.RegisterResponse{Message: &machinev1.RegisterResponse_Registered{
		Registered: &machinev1.Registered{Group: group, Entry: group + "-1", Probe: probe},
	}}))
}

func (s *stream) refused(group, reason string, passing bool) {
	s.t.Helper()
	require.NoError(s.t, s.Send(&machinev1.RegisterResponse{Message: &machinev1.RegisterResponse_Refused{
		Refused: &machinev1.Refused{Group: group, Reason: reason, Passing: passing},
	}}))
}

// agent runs an agent until the test ends.
type agent struct {
	*register.Agent

	log *journal.Journal
	end func() error
}

func (d *discovery) agent(change func(*register.Options)) *agent {
	d.t.Helper()
	conn, err := grpc.NewClient(d.at, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(d.t, err)
	a := &agent{log: &journal.Journal{}}
	o := register.Options{
		Discovery: conn, Log: slog.New(slog.NewTextHandler(a.log, nil)), Machine: &machinev1.Machine{Id: "vm-1", Address: "10.0.0.7"},
		Services: []register.Service{{Group: "cart"}},
	}
	if change != nil {
		change(&o)
	}
	a.Agent = register.New(o)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	var over bool
	a.end = func() error {
		if over {
			return nil
		}
		over = true
		cancel()
		err := <-ended
		require.NoError(d.t, conn.Close())
		if errors.Is(err, context.Canceled) {
			return nil
		}
		return err
	}
	d.t.Cleanup(func() { require.NoError(d.t, a.end()) })
	return a
}

func (a *agent) says(t *testing.T, text string) {
	t.Helper()
	require.Eventually(t, func() bool { return strings.Contains(a.log.String(), text) }, limit, time.Millisecond, text)
}

// A machine that is refused waits long, but not when it has another connection: that may show another
// certificate.
func TestARefusedMachineComesAgainOnAnotherConnection(t *testing.T) {
	t.Parallel()
	d, another := start(t), make(chan struct{})
	a := d.agent(func(o *register.Options) { o.Reconnected = func() <-chan struct{} { return another } })
	d.next().end <- status.Error(codes.PermissionDenied, "it was revoked")
	a.says(t, "it was revoked")
	began := time.Now()
	close(another)
	d.next()
	require.Less(t, time.Since(began), 5*time.Second, "it would have waited for ten at least")
}

func TestEachStreamIsLater(t *testing.T) {
	t.Parallel()
	d, folder := start(t), t.TempDir()
	with := func(o *register.Options) { o.Folder = folder }
	a := d.agent(with)
	first := d.next()
	m := first.machine()
	require.Equal(t, "vm-1 10.0.0.7", m.GetId()+" "+m.GetAddress())
	require.Equal(t, "cart", m.GetServices()[0].GetGroup())
	require.Less(t, time.Since(time.Unix(0, m.GetSince())), limit)
	first.end <- status.Error(codes.Unavailable, "discovery ends")
	again := d.next().machine()
	require.Greater(t, again.GetSince(), m.GetSince())
	require.NoError(t, a.end())

	// The clock is set back while no agent runs.
	ahead := time.Now().Add(time.Hour).UnixNano()
	require.NoError(t, os.WriteFile(filepath.Join(folder, "registered"), []byte(strconv.FormatInt(ahead, 10)), 0o600))
	d.agent(with)
	require.Equal(t, ahead+1, d.next().machine().GetSince())
}

// app is a service whose health the test sets.
type app struct{ ill atomic.Bool }

// application starts a healthy service, and returns its probe.
func application(t *testing.T) (*app, *machinev1.Probe) {
	t.Helper()
	a := &app{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if a.ill.Load() {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	t.Cleanup(server.Close)
	_, text, err := net.SplitHostPort(server.Listener.Addr().String())
	require.NoError(t, err)
	port, err := strconv.ParseUint(text, 10, 16)
	require.NoError(t, err)
	return a, &machinev1.Probe{
		How:    &machinev1.Probe_Http{Http: &machinev1.HTTPProbe{Host: "127.0.0.1", Port: uint32(port), Path: "/healthz"}},
		Period: durationpb.New(5 * time.Millisecond), FailureThreshold: 1,
	}
}

func TestGroupProbe(t *testing.T) {
	t.Parallel()
	app, probe := application(t)
	d := start(t)
	a := d.agent(nil)
	s := d.next()
	service := s.machine().GetServices()[0]
	require.Equal(t, machinev1.Health_HEALTH_UNSPECIFIED, service.GetHealth())
	require.False(t, service.GetProbed())
	s.registered("cart", probe)
	require.Equal(t, machinev1.Health_HEALTH_HEALTHY, s.health().GetHealth())
	app.ill.Store(true)
	r := s.health()
	require.Equal(t, machinev1.Health_HEALTH_UNHEALTHY, r.GetHealth())
	require.Contains(t, r.GetDetail(), "/healthz: 500")
	a.says(t, "a service is unhealthy")
	require.Contains(t, a.Status().Services[0].Trouble, "500")

	// Another discovery receives the health at once.
	s.end <- status.Error(codes.Unavailable, "discovery ends")
	s = d.next()
	service = s.machine().GetServices()[0]
	require.Equal(t, machinev1.Health_HEALTH_UNHEALTHY, service.GetHealth())
	require.Equal(t, r.GetDetail(), service.GetDetail())

	// A group without a probe leaves the health to discovery.
	s.registered("cart", nil)
	require.Equal(t, machinev1.Health_HEALTH_UNSPECIFIED, s.health().GetHealth())
}

// A restarted agent keeps a healthy service in use until it has probed it.
func TestNextAgentRestoresHealth(t *testing.T) {
	t.Parallel()
	service, probe := application(t)
	d, folder := start(t), t.TempDir()
	keep := func(o *register.Options) { o.Folder = folder }
	isKept := func() bool {
		content, err := os.ReadFile(filepath.Join(folder, "well"))
		return err == nil && strings.Contains(string(content), "cart")
	}

	first := d.agent(keep)
	s := d.next()
	require.Equal(t, machinev1.Health_HEALTH_UNSPECIFIED, s.machine().GetServices()[0].GetHealth())
	s.registered("cart", probe)
	require.Equal(t, machinev1.Health_HEALTH_HEALTHY, s.health().GetHealth())
	require.Eventually(t, isKept, limit, time.Millisecond)
	require.NoError(t, first.end())

	service.ill.Store(true)
	second := d.agent(keep)
	s = d.next()
	require.Equal(t, machinev1.Health_HEALTH_HEALTHY, s.machine().GetServices()[0].GetHealth(), "nobody has asked the service by now")
	s.registered("cart", probe)
	require.Equal(t, machinev1.Health_HEALTH_UNHEALTHY, s.health().GetHealth())
	require.Eventually(t, func() bool { return !isKept() }, limit, time.Millisecond, "what is not well is not inherited")
	require.NoError(t, second.end())

	for name, c := range map[string]struct {
		content string
		health  machinev1.Health
	}{
		"another life of the machine": {`{"boot": "other", "at": "` + time.Now().Format(time.RFC3339) + `", "well": ["cart"]}`, machinev1.Health_HEALTH_UNHEALTHY},
		"too long ago":                {`{"boot": "` + statedir.Boot() + `", "at": "` + time.Now().Add(-time.Hour).Format(time.RFC3339) + `", "well": ["cart"]}`, machinev1.Health_HEALTH_UNSPECIFIED},
		"torn":                        {`{"boot`, machinev1.Health_HEALTH_UNSPECIFIED},
	} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, "well"), []byte(c.content), 0o600))
		third := d.agent(keep)
		s = d.next()
		require.Equal(t, c.health, s.machine().GetServices()[0].GetHealth(), name)
		require.NoError(t, third.end(), name)
	}
}

func TestExecProbesNeedPermission(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "ran")
	command := &machinev1.Probe{How: &machinev1.Probe_Exec{Exec: &machinev1.ExecProbe{Command: []string{"touch", file}}}, Period: durationpb.New(time.Millisecond)}
	d := start(t)
	d.agent(nil)
	s := d.next()
	s.machine()
	s.registered("cart", command)
	r := s.health()
	require.Equal(t, machinev1.Health_HEALTH_UNHEALTHY, r.GetHealth())
	require.Contains(t, r.GetDetail(), "--allow-exec-probes")
	require.NoFileExists(t, file)

	d.agent(func(o *register.Options) { o.AllowExec = true })
	s = d.next()
	s.machine()
	s.registered("cart", command)
	require.Equal(t, machinev1.Health_HEALTH_HEALTHY, s.health().GetHealth())
	require.FileExists(t, file)

	d.agent(func(o *register.Options) { o.Services[0].Readiness = command })
	s = d.next()
	described := s.machine().GetServices()[0]
	require.True(t, described.GetProbed())
	if described.GetHealth() != machinev1.Health_HEALTH_HEALTHY { // unless it was probed already
		require.Equal(t, machinev1.Health_HEALTH_HEALTHY, s.health().GetHealth(), "those of the machine's own file run always")
	}
	s.registered("cart", &machinev1.Probe{How: &machinev1.Probe_Tcp{Tcp: &machinev1.TCPProbe{Port: 1}}})
	s.end <- nil
	require.Equal(t, machinev1.Health_HEALTH_HEALTHY, d.next().machine().GetServices()[0].GetHealth(), "and before the group's")
}

func TestRefusalIsLoggedOnce(t *testing.T) {
	t.Parallel()
	d := start(t)
	a := d.agent(nil)
	s := d.next()
	s.machine()
	s.refused("cart", "mcp-server is away", true)
	a.says(t, "waits to be registered")
	for range 3 {
		s.refused("cart", "there is no WorkloadGroup", false)
	}
	s.registered("cart", nil)
	a.says(t, "entry=cart-1")
	require.Equal(t, 1, strings.Count(a.log.String(), "there is no WorkloadGroup"))
	require.Equal(t, "cart-1", a.Status().Services[0].Entry)
	require.Equal(t, "healthy", a.Status().Services[0].Health)

	s.end <- status.Error(codes.Aborted, "another stream of vm-1: name one of them otherwise (--id)")
	a.says(t, "again_in")
	require.Contains(t, a.Status().Trouble, "--id")
}

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

// follows says that discovery says what mcp-server knows.
func (s *stream) follows(group string) {
	s.t.Helper()
	require.NoError(s.t, s.Send(&machinev1.RegisterResponse{Message: &machinev1.RegisterResponse_Registered{
		Registered: &machinev1.Registered{Group: group, Entry: group + "-1", Follows: true},
	}}))
}

func (s *stream) untold(reason string) {
	s.t.Helper()
	require.NoError(s.t, s.Send(&machinev1.RegisterResponse{Message: &machinev1.RegisterResponse_Untold{Untold: &machinev1.Untold{Reason: reason}}}))
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

func TestLeaving(t *testing.T) {
	t.Parallel()
	d := start(t)
	a := d.agent(nil)
	s := d.next()
	s.machine()
	left := make(chan error, 1)
	go func() { left <- a.Leave(t.Context()) }()
	m, err := s.Recv()
	require.NoError(t, err)
	require.NotNil(t, m.GetLeaving())
	select {
	case <-left:
		require.FailNow(t, "it has not left yet")
	default:
	}
	require.NoError(t, s.Send(&machinev1.RegisterResponse{Message: &machinev1.RegisterResponse_Left{Left: &machinev1.Left{}}}))
	require.NoError(t, <-left)
	require.NoError(t, a.end(), "it registers no more")

	// Discovery goes away before it has answered.
	b := d.agent(nil)
	s = d.next()
	s.machine()
	go func() { left <- b.Leave(t.Context()) }()
	_, err = s.Recv()
	require.NoError(t, err)
	s.end <- status.Error(codes.Unavailable, "mcp-server has not removed the entries yet")
	require.ErrorContains(t, <-left, "has not removed")

	// There is no discovery.
	nowhere := &discovery{t: t, at: "127.0.0.1:1"}
	c := nowhere.agent(nil)
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	require.ErrorContains(t, c.Leave(ctx), "grace period")
	require.NoError(t, ctx.Err(), "without waiting")
}
