package saved

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pgmesh/pgmesh/mcp-server/publish"
)

type metrics struct {
	revision, time prometheus.Gauge
	failures       prometheus.Counter
	damaged        prometheus.Counter
	duration       prometheus.Histogram
}

func newMetrics(registry prometheus.Registerer) metrics {
	opts := func(name, help string) prometheus.Opts { return prometheus.Opts{Name: name, Help: help} }
	m := metrics{
		revision: prometheus.NewGauge(prometheus.GaugeOpts(opts("pgmesh_mcp_server_saved_revision", "The revision that the file has."))),
		time: prometheus.NewGauge(prometheus.GaugeOpts(opts("pgmesh_mcp_server_saved_timestamp_seconds",
			"When what the file has was known to be the newest, in seconds since 1970; 0 if there is no file."))),
		failures: prometheus.NewCounter(prometheus.CounterOpts(opts("pgmesh_mcp_server_save_failures_total", "Files that could not be written."))),
		damaged:  prometheus.NewCounter(prometheus.CounterOpts(opts("pgmesh_mcp_server_saved_damaged_total", "Damaged files that were set aside."))),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "pgmesh_mcp_server_save_seconds", Help: "How long it took to write a file.",
			Buckets: []float64{.001, .01, .1, .5, 1, 5, 30},
		}),
	}
	registry.MustRegister(m.revision, m.time, m.failures, m.damaged, m.duration)
	return m
}

func (m *metrics) saved(s *publish.State) {
	m.revision.Set(float64(s.At.Revision))
	m.time.Set(float64(s.AsOf.UnixMilli()) / 1000)
}

// logUnusable logs why the file is not served.
func (k *Keeper) logUnusable(err error) {
	const nothing = "there is nothing to serve while the source is away"
	if _, broken := errors.AsType[*DamagedError](err); broken {
		k.metrics.damaged.Inc()
		k.log.Error("the saved state is damaged, or of another version of this program: "+nothing, "error", err)
		return
	}
	if errors.Is(err, ErrElsewhere) {
		k.log.Warn("what was saved is not of this source: "+nothing+". It will be replaced", "error", err)
		return
	}
	k.log.Error("cannot read what was saved: "+nothing, "error", err)
}
