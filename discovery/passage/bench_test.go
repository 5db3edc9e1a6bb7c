package passage_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/discovery/passage"
	"github.com/pgmesh/pgmesh/discovery/push"
	"github.com/pgmesh/pgmesh/internal/ads/served"
	"github.com/pgmesh/pgmesh/internal/testbench/collector"
	"github.com/pgmesh/pgmesh/internal/tracing"
	"github.com/pgmesh/pgmesh/kinds"
)

// What a push costs for each proxy, if it is traced.
func BenchmarkPushToAProxy(b *testing.B) {
	o := tracing.Options{To: collector.New(b).GRPC(), Share: 1}
	tracer, err := o.Open("discovery", "d", slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	require.NoError(b, err)
	defer tracer.Close(slog.New(slog.DiscardHandler))
	r, p := passage.New(tracer, func() string { return "m" }), proxies(1000)
	none := func() (push.Queue, []push.Push) { return push.Queue{}, nil }
	revision := int64(1)
	for i := 0; b.Loop(); i++ {
		at := i % len(p)
		if at == 0 {
			revision++
			r.Arrived()
			r.Taken(kinds.Batch{Revision: revision})
			r.Built()
			r.Pushing(push.Begun{After: revision - 1, Revision: revision, At: time.Now()})
			for _, s := range p {
				r.Joined(s, "shop").Offered()
			}
			r.Pushed()
			r.Done(none)
		}
		r.Joined(p[at], "shop").Ran(&served.Snapshot{Revision: "999999"})
	}
}
