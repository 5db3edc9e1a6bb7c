package serve

import (
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pgmesh/pgmesh/discovery/mesh"
)

// problems tells of what is wrong between resources, once for as long as it lasts.
type problems struct {
	log   *slog.Logger
	told  map[mesh.Problem]bool
	count prometheus.Gauge
}

func newProblems(log *slog.Logger, metrics prometheus.Registerer) *problems {
	count := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "pgmesh_discovery_problems",
		Help: "What is wrong between resources of the mesh that are each right by themselves; the log has each.",
	})
	metrics.MustRegister(count)
	return &problems{log: log, count: count}
}

func (p *problems) tell(m *mesh.Mesh) {
	now := map[mesh.Problem]bool{}
	for _, problem := range m.Problems() {
		now[problem] = true
		if !p.told[problem] {
			p.log.Warn("a resource does not mean what it says", "resource", problem.Of, "path", problem.Path, "reason", problem.Reason)
		}
	}
	p.told = now
	p.count.Set(float64(len(now)))
}
