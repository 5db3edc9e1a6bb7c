package traces

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	sdk "go.opentelemetry.io/otel/sdk/trace"
)

const (
	// mostWaiting bounds the spans that wait, of about a kibibyte each.
	mostWaiting = 4096
	// mostAtOnce bounds a message to the collector.
	mostAtOnce = 512
	// gatherFor is how long spans are gathered for one message.
	gatherFor = 500 * time.Millisecond
	// lastMoment is how long the end of a program may wait for the collector.
	lastMoment = 2 * time.Second
)

// queue holds spans until the collector has taken them, or has not.
type queue struct {
	to         sdk.SpanExporter
	log        *slog.Logger
	spans      chan sdk.ReadOnlySpan
	sent, lost prometheus.Counter

	end   context.CancelFunc // ends the gathering
	ended chan struct{}      // closed once nothing is sent any more
	away  bool               // the last message was lost
}

func newQueue(to sdk.SpanExporter, log *slog.Logger, metrics prometheus.Registerer) *queue {
	count := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "pgmesh_trace_spans_total",
		Help: "Spans of traces that the collector has taken (sent), or that were dropped because it did not in time (lost).",
	}, []string{"outcome"})
	metrics.MustRegister(count)
	ctx, end := context.WithCancel(context.Background())
	q := &queue{
		to: to, log: log, spans: make(chan sdk.ReadOnlySpan, mostWaiting), end: end, ended: make(chan struct{}),
		sent: count.WithLabelValues("sent"), lost: count.WithLabelValues("lost"),
	}
	go q.run(ctx)
	return q
}

func (q *queue) add(span sdk.ReadOnlySpan) {
	select {
	case q.spans <- span:
	default:
		q.lost.Inc()
	}
}

// run sends spans until the context ends, and then what waits.
func (q *queue) run(ctx context.Context) {
	defer close(q.ended)
	sending, stop := context.WithCancel(context.Background())
	defer stop()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(lastMoment, stop) })()
	for {
		select {
		case first := <-q.spans:
			q.send(sending, q.gather(ctx, first))
		case <-ctx.Done():
			q.sendRest(sending)
			return
		}
	}
}

// gather returns a span with those that come soon after it.
func (q *queue) gather(ctx context.Context, first sdk.ReadOnlySpan) []sdk.ReadOnlySpan {
	some := []sdk.ReadOnlySpan{first}
	enough := time.NewTimer(gatherFor)
	defer enough.Stop()
	for len(some) < mostAtOnce {
		select {
		case next := <-q.spans:
			some = append(some, next)
		case <-enough.C:
			return some
		case <-ctx.Done():
			return some
		}
	}
	return some
}

func (q *queue) sendRest(ctx context.Context) {
	for {
		var some []sdk.ReadOnlySpan
		for len(some) < mostAtOnce && len(q.spans) > 0 {
			some = append(some, <-q.spans)
		}
		if len(some) == 0 {
			return
		}
		q.send(ctx, some)
	}
}

// send logs when the collector stops taking spans, and when it takes them again.
func (q *queue) send(ctx context.Context, some []sdk.ReadOnlySpan) {
	err := q.to.ExportSpans(ctx, some)
	switch before := q.away; {
	case err != nil:
		q.away = true
		q.lost.Add(float64(len(some)))
		if !before {
			q.log.Warn("the collector does not take traces; spans are lost until it does", "error", err)
		}
	default:
		q.away = false
		q.sent.Add(float64(len(some)))
		if before {
			q.log.Info("the collector takes traces again")
		}
	}
}

func (q *queue) close() error {
	q.end()
	<-q.ended
	ctx, stop := context.WithTimeout(context.Background(), lastMoment)
	defer stop()
	return q.to.Shutdown(ctx)
}
