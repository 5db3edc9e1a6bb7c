package serve

import (
	"cmp"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/proto"
)

// oldNames are those that metrics had up to the release before, which dashboards and alerts may
// ask for. They go with the next release.
var oldNames = map[string]string{
	"pgmesh_discovery_limits_exceeded_total": "limits_exceeded_total",
	"pgmesh_discovery_files_unusable":        "files_unusable",
	"pgmesh_discovery_files_loaded_total":    "files_loaded_total",
	"pgmesh_discovery_tls_not_after_seconds": "tls_not_after_seconds",
}

// withOldNames adds the metrics with old names once more, under these.
func withOldNames(metrics prometheus.Gatherer) prometheus.GathererFunc {
	return func() ([]*dto.MetricFamily, error) {
		all, err := metrics.Gather()
		for _, named := range all {
			if old, has := oldNames[named.GetName()]; has {
				again := proto.CloneOf(named)
				again.Name, again.Help = &old, proto.String("Deprecated: it is called "+named.GetName()+" now.")
				all = append(all, again)
			}
		}
		slices.SortFunc(all, func(a, b *dto.MetricFamily) int { return cmp.Compare(a.GetName(), b.GetName()) })
		return all, err
	}
}
