package push

import (
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pgmesh/pgmesh/discovery/mesh"
)

// conflicts tells of servers of Gateways, and of routes on them, that routers leave out because others are there already. Each
// is told once, and again when it comes back.
type conflicts struct {
	log   *slog.Logger
	count prometheus.Gauge
	told  map[mesh.Problem]bool
}

func newConflicts(log *slog.Logger, metrics prometheus.Registerer) *conflicts {
	c := &conflicts{log: log, told: map[mesh.Problem]bool{}, count: prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "pgmesh_discovery_gateway_conflicts",
		Help: "Servers of Gateways, and routes on them, that routers leave out because others are there already. The log says which, and why.",
	})}
	metrics.MustRegister(c.count)
	return c
}

// tell brings the log and the metric to what the routers of these classes leave out.
func (c *conflicts) tell(m *mesh.Mesh, classes map[mesh.Class]*class) {
	now := map[mesh.Problem]bool{}
	for key, class := range classes {
		if key.Type != mesh.Router {
			continue
		}
		for _, p := range m.Frontend(class.proxy).Problems {
			now[p] = true
			if !c.told[p] {
				c.told[p] = true
				c.log.Warn("routers leave out a part of a resource", "resource", p.Of.String(), "field", p.Path, "reason", p.Reason)
			}
		}
	}
	c.told = now
	c.count.Set(float64(len(now)))
}
