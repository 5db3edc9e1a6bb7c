package mesh

import (
	"github.com/pgmesh/pgmesh/internal/standardmetrics"
)

// MeasuredAs is what the standard metrics call the workload of a proxy. It goes by labels alone, so
// machines with the same ones are one workload there.
func (m *Mesh) MeasuredAs(p *Proxy) standardmetrics.Workload { return m.Known(p).measuredAs() }

func (p *Proxy) measuredAs() standardmetrics.Workload {
	return standardmetrics.WorkloadOf(p.Labels, p.Namespace, p.Cluster)
}

// measured tells proxies that count apart by the workload that they count for.
func (m *Mesh) measured(p *Proxy) string {
	t := m.Telemetry(p)
	if len(t.As(AsClient).Metrics)+len(t.As(AsServer).Metrics) == 0 {
		return ""
	}
	return " " + m.MeasuredAs(p).Encode()
}
