package trust

import (
	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct{ connected prometheus.Gauge }

func newMetrics(r prometheus.Registerer, k *Keeper) *metrics {
	m := &metrics{prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "pgmesh_discovery_trust_connected", Help: "1 while mcp-server tells what the mesh trusts.",
	})}
	gauge := func(name, help string, value func() float64) prometheus.GaugeFunc {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value)
	}
	r.MustRegister(m.connected,
		gauge("pgmesh_discovery_trust_stale_seconds", "For how long discovery has not heard from a server that can read it who was revoked; 0 while it does.",
			func() float64 { return k.stale.age().Seconds() }),
		gauge("pgmesh_discovery_can_sign", "1 while discovery can give machines certificates.", func() float64 {
			if _, err := k.Authority(); err != nil {
				return 0
			}
			return 1
		}),
		gauge("pgmesh_discovery_authority_not_after_seconds", "When the authority that discovery signs with ends, as a Unix time; 0 while it has none.", func() float64 {
			a, _, _ := k.held()
			if a == nil {
				return 0
			}
			return float64(a.NotAfter().Unix())
		}),
	)
	return m
}
