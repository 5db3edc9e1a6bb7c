package limits_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/internal/limits"
	"github.com/pgmesh/pgmesh/internal/rpc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// waiter keeps streams open, and tells of each.
type waiter struct {
	healthv1.UnimplementedHealthServer
}

func (waiter) Check(context.Context, *healthv1.HealthCheckRequest) (*healthv1.HealthCheckResponse, error) {
	return &healthv1.HealthCheckResponse{}, nil
}

func (waiter) Watch(_ *healthv1.HealthCheckRequest, s grpc.ServerStreamingServer[healthv1.HealthCheckResponse]) error {
	if err := s.Send(&healthv1.HealthCheckResponse{}); err != nil {
		return err
	}
	<-s.Context().Done()
	return nil
}

func serve(t *testing.T, o limits.Options) (healthv1.HealthClient, *prometheus.Registry) {
	t.Helper()
	metrics := prometheus.NewRegistry()
	s := rpc.NewServer(limits.New(o, metrics).ServerOptions()...)
	healthv1.RegisterHealthServer(s, waiter{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, conn.Close())
		s.Stop()
		require.NoError(t, <-served)
	})
	return healthv1.NewHealthClient(conn), metrics
}

func check(t *testing.T, c healthv1.HealthClient, service string) error {
	t.Helper()
	_, err := c.Check(t.Context(), &healthv1.HealthCheckRequest{Service: service})
	return err
}

// refused checks that an answer says when to come back.
func refused(t *testing.T, err error, says string) {
	t.Helper()
	require.Equal(t, codes.ResourceExhausted, status.Code(err), "%v", err)
	require.ErrorContains(t, err, says)
	retry, ok := status.Convert(err).Details()[0].(*errdetails.RetryInfo)
	require.True(t, ok)
	require.Positive(t, retry.GetRetryDelay().AsDuration())
	require.LessOrEqual(t, retry.GetRetryDelay().AsDuration(), time.Hour)
}

func TestClientsThatCallTooFastAreSlowedDown(t *testing.T) {
	t.Parallel()
	c, metrics := serve(t, limits.Options{Rate: 0.001, Burst: 3})
	for range 2 {
		require.NoError(t, check(t, c, ""))
	}
	s, err := c.Watch(t.Context(), &healthv1.HealthCheckRequest{})
	require.NoError(t, err)
	_, err = s.Recv()
	require.NoError(t, err, "streams count like calls")
	refused(t, check(t, c, ""), "too many calls come from 127.0.0.1: at most 0.001 a second, and 3 at once")
	s, err = c.Watch(t.Context(), &healthv1.HealthCheckRequest{})
	require.NoError(t, err)
	_, err = s.Recv()
	refused(t, err, "too many calls")
	require.NoError(t, testutil.GatherAndCompare(metrics, strings.NewReader(`
# HELP pgmesh_mcp_server_limits_exceeded_total Calls that were turned away, by the limit that they went over: streams or rate.
# TYPE pgmesh_mcp_server_limits_exceeded_total counter
pgmesh_mcp_server_limits_exceeded_total{limit="rate"} 2
`)))
}

func TestStreamsAreCounted(t *testing.T) {
	t.Parallel()
	c, _ := serve(t, limits.Options{Streams: 2})
	watch := func(ctx context.Context) error {
		s, err := c.Watch(ctx, &healthv1.HealthCheckRequest{})
		require.NoError(t, err)
		_, err = s.Recv()
		return err
	}
	ctx, cancel := context.WithCancel(t.Context())
	require.NoError(t, watch(ctx))
	require.NoError(t, watch(t.Context()))
	refused(t, watch(t.Context()), "the server has as many streams open as it may have, 2 (--max-streams)")
	require.NoError(t, check(t, c, ""), "calls are no streams")
	cancel()
	require.Eventually(t, func() bool { return watch(t.Context()) == nil }, 20*time.Second, 10*time.Millisecond) // the server hears of the end when it does
}

func TestLargeMessagesAreRefused(t *testing.T) {
	t.Parallel()
	c, _ := serve(t, limits.Options{MessageMiB: 1})
	require.NoError(t, check(t, c, strings.Repeat("x", 1<<20-100)))
	err := check(t, c, strings.Repeat("x", 1<<20))
	require.Equal(t, codes.ResourceExhausted, status.Code(err))
	require.ErrorContains(t, err, "received message larger than max")
}

// By default a crowd that comes back at once gets in.
func TestManyClientsMayComeBackTogether(t *testing.T) {
	t.Parallel()
	o := limits.Options{MessageMiB: 64, Streams: 20_000, StreamsPerConnection: 1024, Rate: 500, Burst: 2000}
	c, _ := serve(t, o)
	var crowd sync.WaitGroup
	failed := make(chan error, 1000)
	for range 1000 {
		crowd.Go(func() {
			s, err := c.Watch(t.Context(), &healthv1.HealthCheckRequest{})
			if err == nil {
				_, err = s.Recv()
			}
			if err != nil {
				failed <- err
			}
		})
	}
	crowd.Wait()
	require.Empty(t, failed)
}

func TestHTTPRequestsAreHeldToTheSame(t *testing.T) {
	t.Parallel()
	l := limits.New(limits.Options{Rate: 0.001, Burst: 2, MessageMiB: 1}, prometheus.NewRegistry())
	server := httptest.NewServer(l.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		fmt.Fprint(w, len(body), err)
	})))
	t.Cleanup(server.Close)
	t.Cleanup(server.Client().CloseIdleConnections)
	post := func(body string) (int, string) {
		answer, err := server.Client().Post(server.URL, "text/plain", strings.NewReader(body))
		require.NoError(t, err)
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		return answer.StatusCode, string(text)
	}
	code, text := post("abc")
	require.Equal(t, http.StatusOK, code)
	require.Equal(t, "3 <nil>", text)
	_, text = post(strings.Repeat("x", 2<<20))
	require.Contains(t, text, "request body too large")
	code, text = post("")
	require.Equal(t, http.StatusTooManyRequests, code)
	require.Contains(t, text, "too many calls come from 127.0.0.1")
}
