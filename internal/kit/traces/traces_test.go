package traces_test

import (
	"context"
	"log/slog"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.uber.org/goleak"

	"github.com/pgmesh/pgmesh/internal/kit/traces"
	"github.com/pgmesh/pgmesh/internal/testbench/collector"
	"github.com/pgmesh/pgmesh/internal/testbench/journal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// test sends to an endpoint until the test ends.
type test struct {
	*traces.Sender

	provider *sdk.TracerProvider
	metrics  *prometheus.Registry
	log      journal.Journal
}

func open(t *testing.T, endpoint string) *test {
	t.Helper()
	s := &test{metrics: prometheus.NewRegistry()}
	var err error
	s.Sender, err = traces.Open(endpoint, nil, slog.New(slog.NewTextHandler(&s.log, nil)), s.metrics)
	require.NoError(t, err)
	s.provider = sdk.NewTracerProvider(sdk.WithSpanProcessor(s.Sender))
	return s
}

// record records spans, and returns the id of their trace.
func (s *test) record(spans int) string {
	ctx, first := s.provider.Tracer("test").Start(context.Background(), "first")
	for range spans - 1 {
		_, next := s.provider.Tracer("test").Start(ctx, "next")
		next.End()
	}
	first.End()
	return first.SpanContext().TraceID().String()
}

func (s *test) count(t *testing.T, outcome string) int {
	t.Helper()
	families, err := s.metrics.Gather()
	require.NoError(t, err)
	for _, m := range families[0].GetMetric() {
		if m.GetLabel()[0].GetValue() == outcome {
			return int(m.GetCounter().GetValue())
		}
	}
	return -1
}

func TestSpansComeToTheCollector(t *testing.T) {
	t.Parallel()
	c := collector.New(t)
	for name, endpoint := range map[string]string{"gRPC": c.GRPC(), "HTTP": c.HTTP(), "HTTP with its path": c.HTTP() + "/v1/traces"} {
		s := open(t, endpoint)
		id := s.record(3)
		c.Await(t, id, "unknown_service:traces.test/first", "unknown_service:traces.test/next")
		last := s.record(1)
		require.NoError(t, s.Shutdown(t.Context()), name)
		require.Len(t, c.Spans(last), 1, "what waits at the end is sent")
		require.Equal(t, 4, s.count(t, "sent"))
		require.Empty(t, s.log.String())
	}
}

// An agent marks its connections, or they would be redirected.
func TestConnectionsAreMadeByTheDialer(t *testing.T) {
	t.Parallel()
	c := collector.New(t)
	for _, endpoint := range []string{c.GRPC(), c.HTTP()} {
		dialed := make(chan string, 10)
		by := &net.Dialer{Control: func(_, address string, _ syscall.RawConn) error { dialed <- address; return nil }}
		sender, err := traces.Open(endpoint, by, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
		require.NoError(t, err)
		s := &test{Sender: sender, provider: sdk.NewTracerProvider(sdk.WithSpanProcessor(sender))}
		id := s.record(1)
		c.Await(t, id, "unknown_service:traces.test/first")
		require.Contains(t, endpoint, <-dialed)
		require.NoError(t, sender.Shutdown(t.Context()))
	}
}

// The collector's socket is open, and nobody answers there.
func TestACollectorThatHangsDelaysNobody(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer silent.Close()
	for _, scheme := range []string{"grpc", "http"} {
		s := open(t, scheme+"://"+silent.Addr().String())
		began := time.Now()
		s.record(20_000)
		require.Less(t, time.Since(began), 5*time.Second)
		require.Positive(t, s.count(t, "lost"), "there is room for some thousands")
		require.NoError(t, s.Shutdown(t.Context()))
		require.Less(t, time.Since(began), 15*time.Second)
		require.Equal(t, 20_000, s.count(t, "lost"))
		require.Contains(t, s.log.String(), "spans are lost until it does")
	}
}

func TestACollectorThatIsAwayForAMomentMissesNothing(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := taken.Addr().String()
	require.NoError(t, taken.Close())
	s := open(t, "grpc://"+address)
	id := s.record(2)
	c := collector.At(t, address)
	c.Await(t, id, "unknown_service:traces.test/first", "unknown_service:traces.test/next")
	require.NoError(t, s.Shutdown(t.Context()))
	require.Equal(t, 2, s.count(t, "sent"))
	require.Zero(t, s.count(t, "lost"))
}

func TestEndpoints(t *testing.T) {
	t.Parallel()
	for _, right := range []string{"grpc://collector", "grpcs://collector:443", "https://collector/otlp/v1/traces", "grpc:", "http:", "http://[::1]:4318"} {
		s, err := traces.Open(right, nil, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
		require.NoError(t, err, right)
		require.NoError(t, s.Shutdown(t.Context()), right)
	}
	for _, wrong := range []string{"", "collector:4317", "tcp://collector:4317", "grpc://collector/path", "http://user:password@collector", "http://collector?x=1", "http:collector", "://"} {
		_, err := traces.Open(wrong, nil, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
		require.ErrorContains(t, err, "where to send traces is grpc://HOST:4317", wrong)
	}
}
