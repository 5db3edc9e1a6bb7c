package registries

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pgmesh/pgmesh/registry"
)

func describe(name, help string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, []string{"registry"}, nil)
}

var (
	connected = describe("pgmesh_mcp_server_origin_connected", "1 while the registry was read and can be asked.")
	stale     = describe("pgmesh_mcp_server_origin_stale_seconds", "How long ago what is served of the registry was known to be the newest; 0 while it is.")
	entries   = describe("pgmesh_mcp_server_origin_resources", "Resources that the registry has.")
	bad       = describe("pgmesh_mcp_server_origin_bad_entries", "Entries of the registry that cannot be used; the last good state of each stays.")
	written   = prometheus.NewDesc("pgmesh_mcp_server_origin_status_writes_total", "Statuses of resources that this server has written to the registry, by how that ended.", []string{"registry", "result"}, nil)
	waiting   = describe("pgmesh_mcp_server_origin_status_waiting", "Statuses of resources that this server is about to write to the registry.")
	lag       = describe("pgmesh_mcp_server_origin_status_lag_seconds", "How long the first of them has been waiting; 0 if none is.")
	changes   = describe("pgmesh_mcp_server_origin_changes_total", "Resources of the registry that have come, changed or gone.")
)

// Describe lists the metrics.
func (all *Registries) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{connected, stale, entries, bad, changes, written, waiting, lag} {
		to <- d
	}
}

// Collect reads the state of all registries.
func (all *Registries) Collect(to chan<- prometheus.Metric) {
	for _, s := range all.Status() {
		gauge := func(d *prometheus.Desc, value float64) {
			to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, s.Name)
		}
		isConnected, age := 0.0, 0.0
		if s.Read && s.Error == nil {
			isConnected = 1
		}
		if !s.Stale.IsZero() {
			age = max(0, time.Since(s.Stale).Seconds())
		}
		gauge(connected, isConnected)
		gauge(stale, age)
		gauge(entries, float64(s.Resources))
		gauge(bad, float64(len(s.Bad)))
		to <- prometheus.MustNewConstMetric(changes, prometheus.CounterValue, float64(s.Changes), s.Name)
	}
	for _, o := range all.origins {
		if w, is := o.registry.(registry.StatusWriter); is && w.WritesStatuses() {
			collectWrites(w.Name(), w.Writes(), to)
		}
	}
}

func collectWrites(name string, w registry.Writes, to chan<- prometheus.Metric) {
	for result, count := range map[string]uint64{"done": w.Done, "conflict": w.Conflicts, "failed": w.Failed} {
		to <- prometheus.MustNewConstMetric(written, prometheus.CounterValue, float64(count), name, result)
	}
	behind := 0.0
	if !w.Since.IsZero() {
		behind = max(0, time.Since(w.Since).Seconds())
	}
	to <- prometheus.MustNewConstMetric(waiting, prometheus.GaugeValue, float64(w.Waiting), name)
	to <- prometheus.MustNewConstMetric(lag, prometheus.GaugeValue, behind, name)
}
