package mesh

import (
	"github.com/pgmesh/pgmesh/internal/standardmetrics"
)

// MeasuredAs is what the standard metrics call the workload of a proxy. It goes by labels alone, so
// machines with the same ones are one workload there.
func (m *Mesh) MeasuredAs(p *Proxy) standardmetrics.Workload {
	p = m.Known(p)
	return standardmetrics.WorkloadOf(p.Labels, p.Namespace, p.Cluster)
}

// Measures reports whether a proxy counts anything.
func (t *Telemetry) Measures() bool {
	return len(t.As(AsClient).Metrics)+len(t.As(AsServer).Metrics) > 0
}

// encodeTelemetry tells proxies apart by what they tell, and as what: metrics name the workload.
func (m *Mesh) encodeTelemetry(p *Proxy) string {
	out := encodeNamed(m.telemetriesOf(p))
	if m.Telemetry(p).Measures() {
		out += " " + m.MeasuredAs(p).Encode()
	}
	return out
}
