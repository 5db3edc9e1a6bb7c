package tracing_test

import (
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"

	"github.com/pgmesh/pgmesh/internal/testbench/collector"
	"github.com/pgmesh/pgmesh/internal/tracing"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, o tracing.Options, program string) *tracing.Tracer {
	t.Helper()
	tracer, err := o.Open(program, program+"-1", slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	require.NoError(t, err)
	t.Cleanup(func() { tracer.Close(slog.New(slog.DiscardHandler)) })
	return tracer
}

// Several programs record spans of one revision, and tell each other nothing.
func TestARevisionIsOneTraceInAllPrograms(t *testing.T) {
	t.Parallel()
	c := collector.New(t)
	o := tracing.Options{To: c.GRPC(), Share: 1}
	server, discovery, agent := open(t, o, "mcp-server"), open(t, o, "discovery"), open(t, o, "mesh-agent")
	began := time.Unix(1700000000, 0)
	for range 2 { // two servers record the commit
		server.Of("m", 7).RecordCommit(tracing.Span{Began: began, Ended: began.Add(time.Second), Attributes: []attribute.KeyValue{attribute.String(tracing.AuthorKey, "ann")}})
	}
	change := discovery.Of("m", 7)
	change.Record(tracing.Span{
		Name: "roll out", ID: change.SpanID("d1"), Began: began, Ended: began.Add(time.Minute),
		Events: []tracing.Event{{Name: "refused", At: began.Add(time.Second), Attributes: []attribute.KeyValue{attribute.String("reason", strings.Repeat("x", 5000))}}},
		Links:  []trace.Link{discovery.Of("m", 6).LinkTo(discovery.Of("m", 6).SpanID("d1"))},
	})
	seen := agent.Of("m", 7)
	seen.Record(tracing.Span{Name: "relay", Parent: seen.SpanID("d1"), Began: began.Add(time.Minute), Ended: began, Failure: "no"})
	spans := c.Await(t, change.ID(), "postgres/commit", "discovery/roll out", "mesh-agent/relay")

	commit, rollOut, relay := collector.Find(spans, "postgres/commit"), collector.Find(spans, "discovery/roll out"), collector.Find(spans, "mesh-agent/relay")
	require.Empty(t, commit.GetParentSpanId())
	require.Equal(t, "ann", commit.Value(tracing.AuthorKey))
	require.Equal(t, "7", commit.Value(tracing.RevisionKey))
	require.Equal(t, "m", commit.Value(tracing.MeshKey))
	require.Empty(t, commit.Instance, "it is the same whoever tells of it")
	require.Equal(t, commit.GetSpanId(), rollOut.GetParentSpanId())
	require.Equal(t, "discovery-1", rollOut.Instance)
	require.Less(t, len(rollOut.GetEvents()[0].GetAttributes()[0].GetValue().GetStringValue()), 1100)
	require.NotEqual(t, rollOut.GetTraceId(), rollOut.GetLinks()[0].GetTraceId())
	require.Equal(t, rollOut.GetSpanId(), relay.GetParentSpanId())
	require.Equal(t, relay.GetStartTimeUnixNano(), relay.GetEndTimeUnixNano(), "clocks differ")
	require.Equal(t, "no", relay.GetStatus().GetMessage())
}

func TestTracesOfMeshesDiffer(t *testing.T) {
	t.Parallel()
	tracer := open(t, tracing.Options{To: "grpc://127.0.0.1:1", Share: 1}, "x")
	require.NotEqual(t, tracer.Of("a", 1).ID(), tracer.Of("b", 1).ID())
	require.NotEqual(t, tracer.Of("a", 1).ID(), tracer.Of("a", 2).ID())
	require.Nil(t, tracer.Of("", 1), "nobody knows which mesh it is")
	require.Nil(t, tracer.Of("a", 0), "the source has no revisions")
}

func TestAllProgramsChooseTheSameRevisions(t *testing.T) {
	t.Parallel()
	one, other, less := open(t, tracing.Options{To: "grpc:", Share: .25}, "one"), open(t, tracing.Options{To: "http:", Share: .25}, "other"), open(t, tracing.Options{To: "http:", Share: .1}, "less")
	chosen := 0
	for r := range int64(10_000) {
		require.Equal(t, one.Of("m", r) == nil, other.Of("m", r) == nil)
		if less.Of("m", r) != nil {
			require.NotNil(t, one.Of("m", r), "who is given a smaller share chooses among the same")
		}
		if one.Of("m", r) != nil {
			chosen++
		}
	}
	require.InDelta(t, 2500, chosen, 150)
}

func TestWhatTravelsWithALaterRevision(t *testing.T) {
	t.Parallel()
	tracer := open(t, tracing.Options{To: "grpc:", Share: 1}, "x")
	merged := func(after, with int64) (all []int64) {
		for _, c := range tracer.Merged("m", after, with) {
			all = append(all, c.Revision())
		}
		return all
	}
	require.Equal(t, []int64{5, 6}, merged(4, 7))
	require.Empty(t, merged(6, 7))
	require.Empty(t, merged(0, 7), "what was before is not known")
	require.Empty(t, merged(9, 7), "the mesh was set back")
	require.Len(t, merged(1, 1_000_000), tracing.MostMerged)
}

func TestWithoutACollectorThereIsNothing(t *testing.T) {
	before := runtime.NumGoroutine()
	metrics := prometheus.NewRegistry()
	for _, off := range []tracing.Options{{}, {To: "grpc://collector", Share: 0}, {Share: 1}} {
		tracer, err := off.Open("x", "", nil, metrics)
		require.NoError(t, err)
		require.Nil(t, tracer)
		require.Nil(t, tracer.Of("m", 1))
		require.Nil(t, tracer.Merged("m", 1, 9))
		tracer.Of("m", 1).Record(tracing.Span{})
		tracer.Of("m", 1).RecordCommit(tracing.Span{})
		tracer.Close(nil)
	}
	require.Equal(t, before, runtime.NumGoroutine())
	families, err := metrics.Gather()
	require.NoError(t, err)
	require.Empty(t, families)
	require.Zero(t, testing.AllocsPerRun(100, func() { (*tracing.Tracer)(nil).Of("m", 1).Record(tracing.Span{}) }))
}

func TestOptionsThatCannotBeMeant(t *testing.T) {
	t.Parallel()
	for wrong, o := range map[string]tracing.Options{
		"--traces-share 1.5: it is a share from 0 to 1": {To: "grpc://collector", Share: 1.5},
		`--traces-to "collector": where to send traces`: {To: "collector", Share: 1},
	} {
		_, err := o.Open("x", "", nil, prometheus.NewRegistry())
		require.ErrorContains(t, err, wrong)
	}
}

func TestNamesAreBounded(t *testing.T) {
	t.Parallel()
	var names tracing.Names
	for _, name := range []string{"b", "a", "", "b"} {
		names.Add(name)
	}
	require.Equal(t, []string{"a", "b"}, names.As("x").Value.AsStringSlice())
	for i := range 100 {
		names.Add(strings.Repeat("c", i))
	}
	all := names.As("x").Value.AsStringSlice()
	require.Len(t, all, 21)
	require.Equal(t, "…", all[20])
}
