package register_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/pgmesh/pgmesh/mesh-agent/host/statedir"
	"github.com/pgmesh/pgmesh/mesh-agent/services/register"
	machinev1 "github.com/pgmesh/pgmesh/proto/pgmesh/machine/v1"
)

// A machine that is refused waits long, but not when it may be let in.
func TestARefusedMachineComesAgainWhenItMayBeLetIn(t *testing.T) {
	t.Parallel()
	d, again := start(t), make(chan struct{})
	a := d.agent(func(o *register.Options) { o.Retry = func() <-chan struct{} { return again } })
	d.next().end <- status.Error(codes.PermissionDenied, "it was revoked")
	a.says(t, "it was revoked")
	began := time.Now()
	close(again)
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
