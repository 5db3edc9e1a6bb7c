package probe_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/pgmesh/pgmesh/mesh-agent/services/probe"
	machinev1 "github.com/pgmesh/pgmesh/proto/pgmesh/machine/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const limit = 20 * time.Second

func portOf(t *testing.T, address string) uint32 {
	t.Helper()
	_, text, err := net.SplitHostPort(strings.TrimPrefix(strings.TrimPrefix(address, "https://"), "http://"))
	require.NoError(t, err)
	port, err := strconv.ParseUint(text, 10, 16)
	require.NoError(t, err)
	return uint32(port)
}

// loopback starts a server where a probe without a host looks.
const loopback = "127.0.0.1"

func get(port uint32, path string, headers ...*machinev1.Header) *machinev1.Probe {
	return &machinev1.Probe{How: &machinev1.Probe_Http{Http: &machinev1.HTTPProbe{Host: loopback, Port: port, Path: path, Headers: headers}}}
}

func TestHTTP(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	mux.HandleFunc("/well", func(w http.ResponseWriter, r *http.Request) {
		if r.Host != "cart.example" || r.Header.Get("X-Probe") != "yes" || r.URL.RawQuery != "a=b" {
			w.WriteHeader(http.StatusTeapot)
		}
	})
	mux.HandleFunc("/ill", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	mux.HandleFunc("/moved", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/ill", http.StatusFound) })
	mux.HandleFunc("/elsewhere", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://elsewhere.invalid/", http.StatusFound)
	})
	mux.HandleFunc("/round", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/round", http.StatusFound) })
	mux.HandleFunc("/slow", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	server := httptest.NewServer(mux)
	defer server.Close()
	port := portOf(t, server.URL)
	require.NoError(t, probe.Once(t.Context(), get(port, "well?a=b", &machinev1.Header{Name: "host", Value: "cart.example"}, &machinev1.Header{Name: "x-probe", Value: "yes"})))
	require.NoError(t, probe.Once(t.Context(), get(port, "/elsewhere")), "a redirect to somewhere else is an answer")
	for path, says := range map[string]string{
		"/ill": "/ill: 503 Service Unavailable", "/moved": "503", "/round": "redirects more than", "/none": "404", "/slow": "no answer within 1s",
	} {
		require.ErrorContains(t, probe.Once(t.Context(), get(port, path)), says, path)
	}
	secure := httptest.NewTLSServer(mux)
	defer secure.Close()
	p := get(portOf(t, secure.URL), "/elsewhere")
	p.GetHttp().Scheme = "HTTPS"
	require.NoError(t, probe.Once(t.Context(), p), "certificates are not looked at")
	require.ErrorContains(t, probe.Once(t.Context(), get(refusing(t), "/well")), "connection refused")
}

func TestTCP(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", loopback+":0")
	require.NoError(t, err)
	defer l.Close()
	p := &machinev1.Probe{How: &machinev1.Probe_Tcp{Tcp: &machinev1.TCPProbe{Port: portOf(t, l.Addr().String())}}}
	require.NoError(t, probe.Once(t.Context(), p), "without a host it is this machine")
	p.GetTcp().Port = refusing(t)
	require.ErrorContains(t, probe.Once(t.Context(), p), "connection refused")
}

// refusing returns a port that nobody can listen on while the test runs, since a client has it. One that
// is merely closed may be somebody else's a moment later.
func refusing(t *testing.T) uint32 {
	t.Helper()
	l, err := net.Listen("tcp", loopback+":0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	client, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return portOf(t, client.LocalAddr().String())
}

func TestGRPC(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", loopback+":0")
	require.NoError(t, err)
	server, states := grpc.NewServer(), health.NewServer()
	healthv1.RegisterHealthServer(server, states)
	go func() { _ = server.Serve(l) }()
	defer server.Stop()
	ask := func(service string) error {
		return probe.Once(t.Context(), &machinev1.Probe{How: &machinev1.Probe_Grpc{Grpc: &machinev1.GRPCProbe{Port: portOf(t, l.Addr().String()), Service: service}}})
	}
	require.NoError(t, ask(""))
	states.SetServingStatus("cart", healthv1.HealthCheckResponse_NOT_SERVING)
	require.ErrorContains(t, ask("cart"), "NOT_SERVING")
	states.SetServingStatus("cart", healthv1.HealthCheckResponse_SERVING)
	require.NoError(t, ask("cart"))
	require.ErrorContains(t, ask("none"), "knows of no such service")
	plain := grpc.NewServer()
	other, err := net.Listen("tcp", loopback+":0")
	require.NoError(t, err)
	go func() { _ = plain.Serve(other) }()
	defer plain.Stop()
	require.ErrorContains(t, probe.Once(t.Context(), &machinev1.Probe{How: &machinev1.Probe_Grpc{Grpc: &machinev1.GRPCProbe{Port: portOf(t, other.Addr().String())}}}), "has no grpc.health.v1.Health")
}

func run(command ...string) *machinev1.Probe {
	return &machinev1.Probe{How: &machinev1.Probe_Exec{Exec: &machinev1.ExecProbe{Command: command}}}
}

func TestExec(t *testing.T) {
	t.Parallel()
	require.NoError(t, probe.Once(t.Context(), run("true")))
	require.EqualError(t, probe.Once(t.Context(), run("sh", "-c", "echo no; echo disk >&2; exit 3")), "sh: exit status 3: no disk")
	require.ErrorContains(t, probe.Once(t.Context(), run("no-such-program")), "executable file not found")
	file := filepath.Join(t.TempDir(), "alive")
	require.ErrorContains(t, probe.Once(t.Context(), run("sh", "-c", "(sleep 3; touch "+file+") & sleep 30")), "no answer within 1s")
	require.Never(t, func() bool { _, err := os.Stat(file); return err == nil }, 3*time.Second, 100*time.Millisecond, "what it has started has ended with it")
	require.ErrorContains(t, probe.Once(t.Context(), &machinev1.Probe{}), "does not say how")
}

func TestWatchReportsAtTheThreshold(t *testing.T) {
	t.Parallel()
	answers := make(chan bool)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case well := <-answers:
			if !well {
				w.WriteHeader(http.StatusInternalServerError)
			}
		case <-r.Context().Done():
		}
	}))
	defer server.Close()
	p := get(portOf(t, server.URL), "/")
	p.Period, p.Timeout = durationpb.New(time.Millisecond), durationpb.New(limit)
	p.SuccessThreshold, p.FailureThreshold = 2, 3
	told := make(chan error, 100)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		probe.Watch(ctx, p, func(wrong error) { told <- wrong })
	}()
	say := func(all ...bool) {
		for _, well := range all {
			answers <- well
		}
	}
	say(true, false, true, false, false, true, true)
	require.NoError(t, <-told)
	say(true, false, false, true, false, false)
	require.Empty(t, told, "two failures in a row are not enough")
	say(false)
	require.ErrorContains(t, <-told, "500")
	say(false, true, false, true)
	require.Empty(t, told)
	say(true)
	require.NoError(t, <-told)
	cancel()
	<-done
	require.Empty(t, told, "nobody is told of the end")
}

func TestTimingIsAsInKubernetes(t *testing.T) {
	t.Parallel()
	require.Equal(t, probe.Timing{Timeout: time.Second, Period: 10 * time.Second, Success: 1, Failure: 3}, probe.TimingOf(&machinev1.Probe{}))
	require.Equal(t, probe.Timing{Delay: time.Minute, Timeout: 2 * time.Second, Period: 3 * time.Second, Success: 4, Failure: 5}, probe.TimingOf(&machinev1.Probe{
		InitialDelay: durationpb.New(time.Minute), Timeout: durationpb.New(2 * time.Second), Period: durationpb.New(3 * time.Second), SuccessThreshold: 4, FailureThreshold: 5,
	}))
	require.Equal(t, "GET http://localhost:80/a", probe.What(get2()))
}

func get2() *machinev1.Probe {
	return &machinev1.Probe{How: &machinev1.Probe_Http{Http: &machinev1.HTTPProbe{Port: 80, Path: "a"}}}
}

// act is an action that was taken.
type act struct {
	at          time.Time
	why, failed error
}

func TestLivenessActionsBackOff(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "restarted")
	p := run("sh", "-c", fmt.Sprintf("test $(cat %s | wc -l) -ge 3", file))
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	p.Period, p.FailureThreshold, p.Timeout = durationpb.New(5*time.Millisecond), 2, durationpb.New(limit)
	acted := make(chan act, 100)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		probe.Hurried(probe.Liveness{Service: "cart", Probe: p, Action: []string{"sh", "-c", "echo x >> " + file}, OnAction: func(why, failed error) {
			acted <- act{time.Now(), why, failed}
		}}, 100*time.Millisecond).Run(ctx)
	}()
	first, second, third := <-acted, <-acted, <-acted
	require.ErrorContains(t, first.why, "exit status 1")
	require.NoError(t, first.failed)
	require.Greater(t, second.at.Sub(first.at), 80*time.Millisecond)
	require.Greater(t, third.at.Sub(second.at), 160*time.Millisecond)
	require.Never(t, func() bool { return len(acted) > 0 }, 700*time.Millisecond, 50*time.Millisecond, "it lives")
	cancel()
	<-done
}
