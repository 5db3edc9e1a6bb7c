package publish

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

func (p *Publisher) register(metrics prometheus.Registerer) {
	gauge := func(name, help string, labels prometheus.Labels, value func() float64) {
		metrics.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: name, Help: help, ConstLabels: labels,
		}, func() float64 {
			p.mu.Lock()
			defer p.mu.Unlock()
			return value()
		}))
	}
	gauge("pgmesh_mcp_server_revision", "The revision that clients are served.", nil, func() float64 {
		if !p.loaded {
			return 0
		}
		return float64(p.at.Revision)
	})
	for _, name := range []string{Database, Upstream, Registries, File} {
		gauge("pgmesh_mcp_server_source", "1 for where what clients are served comes from.", prometheus.Labels{"source": name}, func() float64 {
			if p.source.Name == name {
				return 1
			}
			return 0
		})
	}
	gauge("pgmesh_mcp_server_stale_seconds", "How long ago what clients are served was known to be the newest; 0 while it is.", nil, func() float64 {
		if p.source.Stale.IsZero() {
			return 0
		}
		return max(0, time.Since(p.source.Stale).Seconds()) // another machine's clock may be ahead
	})
}
