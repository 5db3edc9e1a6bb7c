package announce

import "github.com/prometheus/client_golang/prometheus"

func describe(name, help string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, []string{"announcer"}, nil)
}

var (
	connected = describe("pgmesh_mcp_server_announcer_connected", "1 while the registry that services are announced in can be written to.")
	writes    = describe("pgmesh_mcp_server_announcer_writes", "1 on the server that announces services, of all that would.")
	instances = describe("pgmesh_mcp_server_announcer_instances", "Instances that this server has announced; 0 where another server writes.")
	bad       = describe("pgmesh_mcp_server_announcer_bad_services", "Services that cannot be announced as they are.")
	changes   = describe("pgmesh_mcp_server_announcer_changes_total", "Instances that were announced, changed or taken away.")
)

// Describe lists the metrics.
func (a *Announcements) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{connected, writes, instances, bad, changes} {
		to <- d
	}
}

// Collect reads the state of all announcers.
func (a *Announcements) Collect(to chan<- prometheus.Metric) {
	for _, one := range a.all {
		one.collect(to)
	}
}

func (a *announcement) collect(to chan<- prometheus.Metric) {
	a.mu.Lock()
	defer a.mu.Unlock()
	gauge := func(d *prometheus.Desc, value float64) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, a.announcer.Name())
	}
	is := map[bool]float64{true: 1}
	gauge(connected, is[a.away == ""])
	gauge(writes, is[a.writes])
	gauge(instances, float64(a.instances))
	gauge(bad, float64(len(a.bad)))
	to <- prometheus.MustNewConstMetric(changes, prometheus.CounterValue, float64(a.changes), a.announcer.Name())
}
