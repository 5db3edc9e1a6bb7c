package wasm

import (
	"errors"
	"io"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pgmesh/pgmesh/mesh-agent/wasm/fetch"
)

// metrics may be nil, which records nothing.
type metrics struct {
	fetches *prometheus.CounterVec
	lookups *prometheus.CounterVec
	bytes   prometheus.Counter
}

// How attempts to fetch a module end.
const (
	succeeded   = "succeeded"
	failed      = "failed"
	otherDigest = "other_digest"
)

func newMetrics(r prometheus.Registerer, of *Modules) *metrics {
	if r == nil {
		return nil
	}
	m := &metrics{
		fetches: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pgmesh_mesh_agent_wasm_fetches_total", Help: "Attempts to fetch a Wasm module, by how they ended.",
		}, []string{"result"}),
		lookups: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pgmesh_mesh_agent_wasm_lookups_total", Help: "Plugins that discovery sent, by where their module was: kept on this machine, or to be asked for.",
		}, []string{"result"}),
		bytes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "pgmesh_mesh_agent_wasm_fetched_bytes_total", Help: "Bytes of Wasm modules that were fetched.",
		}),
	}
	for _, result := range []string{succeeded, failed, otherDigest} {
		m.fetches.WithLabelValues(result) // so that all begin at 0
	}
	m.lookedUpAs("kept").Add(0)
	m.lookedUpAs("asked").Add(0)
	r.MustRegister(m.fetches, m.lookups, m.bytes,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "pgmesh_mesh_agent_wasm_modules", Help: "Wasm modules that are kept.",
		}, func() float64 { return float64(len(of.kept.List())) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "pgmesh_mesh_agent_wasm_module_bytes", Help: "Bytes of the Wasm modules that are kept.",
		}, func() float64 { return float64(of.kept.Bytes()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "pgmesh_mesh_agent_wasm_failing", Help: "Wasm modules that plugins wait for, and of which the last attempt failed; mesh-agent status has the reasons.",
		}, func() float64 { return float64(len(of.failing())) }))
	return m
}

func (m *metrics) lookedUpAs(result string) prometheus.Counter {
	return m.lookups.WithLabelValues(result)
}

func (m *metrics) lookedUp(kept bool) {
	switch {
	case m == nil:
	case kept:
		m.lookedUpAs("kept").Inc()
	default:
		m.lookedUpAs("asked").Inc()
	}
}

func (m *metrics) fetched(err error) {
	if m == nil {
		return
	}
	result := succeeded
	if _, other := errors.AsType[*fetch.OtherDigest](err); other {
		result = otherDigest
	} else if err != nil {
		result = failed
	}
	m.fetches.WithLabelValues(result).Inc()
}

// counted counts what is written of modules.
type counted struct {
	io.Writer

	metrics *metrics
}

func (c *counted) Write(p []byte) (int, error) {
	n, err := c.Writer.Write(p)
	if c.metrics != nil {
		c.metrics.bytes.Add(float64(n))
	}
	return n, err
}
