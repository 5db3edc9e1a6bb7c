package passage_test

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/pgmesh/pgmesh/discovery/passage"
	"github.com/pgmesh/pgmesh/discovery/push"
	"github.com/pgmesh/pgmesh/internal/ads/served"
	"github.com/pgmesh/pgmesh/internal/testbench/collector"
	"github.com/pgmesh/pgmesh/internal/tracing"
	"github.com/pgmesh/pgmesh/kinds"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// discovery is one, as far as its recorder sees it.
type discovery struct {
	*passage.Recorder

	t         *testing.T
	collector *collector.Collector
	tracer    *tracing.Tracer
	revision  int64
}

func start(t *testing.T) *discovery {
	t.Helper()
	d := &discovery{t: t, collector: collector.New(t), revision: 1}
	o := tracing.Options{To: d.collector.GRPC(), Share: 1}
	var err error
	d.tracer, err = o.Open("discovery", "d", slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	require.NoError(t, err)
	t.Cleanup(func() { d.tracer.Close(slog.New(slog.DiscardHandler)) })
	d.Recorder = passage.New(d.tracer, func() string { return "m" })
	return d
}

// push pushes a revision to some proxies.
func (d *discovery) push(revision int64, to ...*served.Subscriber) {
	d.Arrived()
	kind, err := kinds.ByName("VirtualService")
	require.NoError(d.t, err)
	d.Taken(kinds.Batch{Revision: revision, Changes: []kinds.Change{{Key: kinds.Key{Kind: kind, Namespace: "shop", Name: "x"}}}})
	d.Built()
	d.Pushing(push.Begun{After: d.revision, Revision: revision, At: time.Now()})
	for _, s := range to {
		d.Joined(s, "shop").Offered()
	}
	d.Pushed()
	d.Done(func() (push.Queue, []push.Push) {
		return push.Queue{}, []push.Push{{Work: []push.Work{{TypeURL: push.ClusterType, Resources: 3, Bytes: 100, Took: time.Second}}}}
	})
	d.revision = revision
}

// rollOut is the span of a revision.
func (d *discovery) rollOut(revision int64) collector.Span {
	d.t.Helper()
	return collector.Find(d.collector.Await(d.t, d.id(revision), "discovery/roll out"), "discovery/roll out")
}

func (d *discovery) id(revision int64) string { return d.tracer.Of("m", revision).ID() }

// counts are how many proxies it concerned, how many ran it, left, and are waited for no more.
func counts(s collector.Span) [4]string {
	return [4]string{s.Value(tracing.ConcernedKey), s.Value(tracing.RanKey), s.Value(tracing.AwayKey), s.Value(tracing.UnfinishedKey)}
}

func proxies(n int) (all []*served.Subscriber) {
	for range n {
		all = append(all, served.NewSubscriber(nil))
	}
	return all
}

func TestARollOutEndsWithItsLastProxy(t *testing.T) {
	t.Parallel()
	d, p := start(t), proxies(4)
	d.push(2, p...)
	d.Joined(p[0], "shop").Ran(&served.Snapshot{Revision: "2"})
	d.Joined(p[1], "shop").Ran(&served.Snapshot{Revision: "1"}) // of what was before
	d.Joined(p[2], "shop").Left(p[2])
	d.Joined(p[1], "shop").Ran(&served.Snapshot{Revision: "2"})
	require.Empty(t, d.collector.Spans(d.id(2)))
	d.Joined(p[3], "shop").Ran(&served.Snapshot{Revision: "3"})
	s := d.rollOut(2)
	require.Equal(t, [4]string{"4", "3", "1", "0"}, counts(s))
	require.Equal(t, "[VirtualService]", s.Value(tracing.KindsKey))
	require.Equal(t, "[shop]", s.Value(tracing.NamespacesKey))
	require.Len(t, s.GetEvents(), 2)
	pushed := collector.Find(d.collector.Await(t, d.id(2), "discovery/push"), "discovery/push")
	require.Equal(t, "3", pushed.Value("pgmesh.translated.envoy.config.cluster.v3.Cluster.resources"))

	d.push(3)
	require.Equal(t, [4]string{"0", "0", "0", "0"}, counts(d.rollOut(3)), "it concerns nobody")
}

func TestRevisionsThatArePushedTogetherAreLinked(t *testing.T) {
	t.Parallel()
	d := start(t)
	d.Arrived() // 2 and 3 came while another was pushed
	d.push(4)
	last, earlier := d.rollOut(4), d.rollOut(2)
	require.Equal(t, "2", last.Value(tracing.MergedKey))
	require.Equal(t, "4", earlier.Value(tracing.WithKey))
	require.Equal(t, last.GetSpanId(), earlier.GetLinks()[0].GetSpanId())
	require.Equal(t, earlier.GetSpanId(), last.GetLinks()[0].GetSpanId())
	require.Len(t, last.GetLinks(), 2)
}

func TestWhatIsNoNewRevisionIsNotRecorded(t *testing.T) {
	t.Parallel()
	d, p := start(t), proxies(1)
	d.Pushing(push.Begun{After: 1, Revision: 1, At: time.Now()}) // new keys, or another trust
	d.Joined(p[0], "shop").Offered()
	d.Pushed()
	d.Joined(p[0], "shop").Ran(&served.Snapshot{Revision: "1"})
	d.push(2, p...)
	d.Joined(p[0], "shop").Ran(&served.Snapshot{Revision: "2"})
	d.rollOut(2)
	require.Empty(t, d.collector.Spans(d.id(1)))
}

func TestProxiesThatDoNotAnswerAreNotWaitedForForever(t *testing.T) {
	t.Parallel()
	d := start(t)
	synctest.Test(t, func(*testing.T) {
		p := proxies(2)
		d.push(2, p...)
		d.Joined(p[0], "shop").Ran(&served.Snapshot{Revision: "2"})
		time.Sleep(time.Hour) // by the clock of the bubble
		synctest.Wait()
	})
	s := d.rollOut(2)
	require.Equal(t, [4]string{"2", "1", "0", "1"}, counts(s))
	require.Equal(t, time.Minute, time.Duration(s.GetEndTimeUnixNano()-s.GetStartTimeUnixNano()))
}

func TestRollOutsAreBounded(t *testing.T) {
	t.Parallel()
	d, p := start(t), proxies(1)
	for revision := range int64(17) {
		d.push(revision+2, p...)
	}
	require.Equal(t, [4]string{"1", "0", "0", "1"}, counts(d.rollOut(2)))
	require.Empty(t, d.collector.Spans(d.id(3)))
	d.Close()
	require.Equal(t, [4]string{"1", "0", "0", "1"}, counts(d.rollOut(18)), "its end ends everything")
}

func TestWithoutATracerNothingIsRecorded(t *testing.T) {
	r := passage.New(nil, nil)
	require.Nil(t, r)
	require.Zero(t, testing.AllocsPerRun(10, func() {
		r.Arrived()
		r.Taken(kinds.Batch{})
		r.Built()
		r.Done(nil)
		r.Close()
	}))
}
