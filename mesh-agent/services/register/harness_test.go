package register_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/pgmesh/pgmesh/internal/testbench/journal"
	"github.com/pgmesh/pgmesh/mesh-agent/services/register"
	machinev1 "github.com/pgmesh/pgmesh/proto/pgmesh/machine/v1"
)

const limit = 20 * time.Second

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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
