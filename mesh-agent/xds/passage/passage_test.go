package passage_test

import (
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc/metadata"

	"github.com/pgmesh/pgmesh/internal/testbench/collector"
	"github.com/pgmesh/pgmesh/internal/tracing"
	"github.com/pgmesh/pgmesh/mesh-agent/xds/passage"
	"github.com/pgmesh/pgmesh/mesh-agent/xds/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func start(t *testing.T) (*collector.Collector, *tracing.Tracer) {
	t.Helper()
	c := collector.New(t)
	o := tracing.Options{To: c.GRPC(), Share: 1}
	tracer, err := o.Open("mesh-agent", "box", slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	require.NoError(t, err)
	t.Cleanup(func() { tracer.Close(slog.New(slog.DiscardHandler)) })
	return c, tracer
}

func header(of ...string) func() (metadata.MD, error) {
	return func() (metadata.MD, error) { return metadata.Pairs(of...), nil }
}

func TestAResponseIsASpanUntilEnvoyHasAnswered(t *testing.T) {
	t.Parallel()
	c, tracer := start(t)
	s := passage.New(tracer, "sidecar~box").Stream(header(tracing.MeshHeader, "m", tracing.ParentHeader, "d"))
	s.Response(&wire.Response{TypeURL: "clusters", Nonce: "1", Version: "5"})
	s.Response(&wire.Response{TypeURL: "listeners", Nonce: "2", Version: "5"})
	s.Request(&wire.Request{Nonce: "1"})
	s.Response(&wire.Response{TypeURL: "clusters", Nonce: "3", Version: "7", Removed: []string{"gone"}, Resources: make([]wire.Resource, 3)})
	s.Request(&wire.Request{Nonce: "2"})
	s.Request(&wire.Request{}) // asks for something
	s.Request(&wire.Request{Nonce: "3", Refused: true, Reason: "no such filter"})
	s.Request(&wire.Request{Nonce: "3"})
	change := tracer.Of("m", 7)
	spans := c.Await(t, change.ID(), "mesh-agent/relay")
	require.Len(t, spans, 1)
	parent := change.SpanID("d")
	require.Equal(t, parent[:], spans[0].GetParentSpanId())
	require.Equal(t, "no such filter", spans[0].GetStatus().GetMessage())
	for key, want := range map[string]string{tracing.TypeKey: "clusters", tracing.ResourcesKey: "3", tracing.RemovedKey: "1", tracing.ProxyKey: "sidecar~box"} {
		require.Equal(t, want, spans[0].Value(key), key)
	}
	require.Equal(t, []string{change.ID()}, c.Traces(), "what Envoy begins with is no change")
}

// Envoy asks for things in between, and is answered with the revision of the day.
func TestWhatEnvoyAsksForIsNoChange(t *testing.T) {
	t.Parallel()
	c, tracer := start(t)
	s := passage.New(tracer, "box").Stream(header(tracing.MeshHeader, "m", tracing.ParentHeader, "d"))
	synctest.Test(t, func(*testing.T) {
		s.Response(&wire.Response{Nonce: "1", Version: "1"})
		s.Response(&wire.Response{Nonce: "2", Version: "2"})
		s.Request(&wire.Request{Nonce: "2"})
		time.Sleep(time.Hour) // by the clock of the bubble
		s.Response(&wire.Response{Nonce: "3", Version: "2"})
		s.Request(&wire.Request{Nonce: "3"})
	})
	require.Len(t, c.Await(t, tracer.Of("m", 2).ID(), "mesh-agent/relay"), 1)
}

func TestUnansweredResponsesAreBounded(t *testing.T) {
	t.Parallel()
	c, tracer := start(t)
	s := passage.New(tracer, "box").Stream(header(tracing.MeshHeader, "m", tracing.ParentHeader, "d"))
	synctest.Test(t, func(*testing.T) {
		s.Response(&wire.Response{Nonce: "first", Version: "1"})
		for i := range 1000 {
			s.Response(&wire.Response{Nonce: fmt.Sprint(i), Version: "2"})
		}
		s.Request(&wire.Request{Nonce: "999"}) // there was no room
		time.Sleep(time.Hour)
		s.Response(&wire.Response{Nonce: "next", Version: "3"})
		s.Request(&wire.Request{Nonce: "next"})
	})
	c.Await(t, tracer.Of("m", 3).ID(), "mesh-agent/relay")
	require.Len(t, c.Traces(), 1)
}

func TestWithoutATraceOfDiscoveryThereIsNone(t *testing.T) {
	t.Parallel()
	_, tracer := start(t)
	require.Nil(t, passage.New(nil, "box").Stream(nil))
	r := passage.New(tracer, "box")
	require.Nil(t, r.Stream(header()))
	require.Nil(t, r.Stream(func() (metadata.MD, error) { return nil, errors.New("gone") }))
	s := r.Stream(header(tracing.MeshHeader, "m"))
	require.Nil(t, s)
	s.Response(&wire.Response{Nonce: "1", Version: "1"})
	s.Request(&wire.Request{Nonce: "1"})
}
