package mesh

import (
	"slices"
	"time"

	telemetry "istio.io/api/telemetry/v1alpha1"

	"github.com/pgmesh/pgmesh/kinds"
)

// Metrics are the metrics of requests and connections that a provider shows.
type Metrics struct {
	Provider Provider
	// Overrides say what is other than by default, sorted by the metrics' names.
	Overrides []MetricOverride
	// Interval is how often open connections are reported; 0 if nothing says so.
	Interval time.Duration
}

// MetricOverride says what is other than by default about one metric.
type MetricOverride struct {
	// Metric is its name in the API, such as REQUEST_COUNT, or that of a custom one.
	Metric   string
	Disabled bool
	// Tags are sorted by name.
	Tags []TagOverride
}

// TagOverride sets a tag of a metric to what an expression of CEL gives, or removes it.
type TagOverride struct {
	Name, Value string
	Remove      bool
}

// standardMetrics are the names of those that a Telemetry can mean by ALL_METRICS.
var standardMetrics = func() (names []string) {
	for number, name := range telemetry.MetricSelector_IstioMetric_name {
		if number != int32(telemetry.MetricSelector_ALL_METRICS) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}()

// measuring is what is said of the metrics of one provider.
type measuring struct {
	overrides map[string]*MetricOverride         // by metric
	tags      map[string]map[string]*TagOverride // by metric and name
	disabled  bool                               // all of them
	interval  time.Duration
}

// metrics returns the metrics in a role. As by Istio, the last resource that names providers says
// which count, and overrides are about the providers that are named beside them or before them.
func (x *telemetryIndex) metrics(from []*kinds.Resource, role Role) (out []Metrics) {
	measures := map[string]*measuring{}
	for _, name := range x.config.GetDefaultProviders().GetMetrics() {
		measures[name] = &measuring{}
	}
	if entries := metricEntries(from); len(entries) > 0 {
		measures = x.measures(entries, role)
	}
	for _, name := range sortedNames(measures) {
		if p, known := x.providers.find(name); known && p.Measures() && !measures[name].disabled {
			out = append(out, Metrics{Provider: p, Overrides: measures[name].list(), Interval: measures[name].interval})
		}
	}
	return out
}

func metricEntries(from []*kinds.Resource) (out []*telemetry.Metrics) {
	for _, r := range from {
		out = append(out, specOf[*telemetry.Telemetry](r).GetMetrics()...)
	}
	return out
}

func (x *telemetryIndex) measures(entries []*telemetry.Metrics, role Role) map[string]*measuring {
	inherited := x.config.GetDefaultProviders().GetMetrics()
	inScope := inherited
	for _, entry := range entries {
		if named := providersNamed(entry.GetProviders()); len(named) > 0 {
			inScope = named
		}
	}
	out := map[string]*measuring{}
	for _, entry := range entries {
		if named := providersNamed(entry.GetProviders()); len(named) > 0 {
			inherited = named
		}
		for _, name := range inherited {
			if !slices.Contains(inScope, name) {
				continue
			}
			if out[name] == nil {
				out[name] = &measuring{}
			}
			out[name].set(entry, role)
		}
	}
	return out
}

// set sets what one entry of a Telemetry says.
func (m *measuring) set(entry *telemetry.Metrics, role Role) {
	if v := entry.GetReportingInterval(); v != nil {
		m.interval = v.AsDuration()
	}
	for _, o := range entry.GetOverrides() {
		if !concernsRole(o.GetMatch().GetMode(), role) {
			continue
		}
		all, names := metricsOf(o.GetMatch())
		if m.disabled = all && o.GetDisabled().GetValue(); m.disabled {
			continue
		}
		for _, name := range names {
			m.override(name, o)
		}
	}
}

// metricsOf returns the names of the metrics that an override is about, and whether those are all.
func metricsOf(match *telemetry.MetricSelector) (all bool, names []string) {
	switch by := match.GetMetricMatch().(type) {
	case *telemetry.MetricSelector_CustomMetric:
		return false, []string{by.CustomMetric}
	case *telemetry.MetricSelector_Metric:
		if by.Metric != telemetry.MetricSelector_ALL_METRICS {
			return false, []string{by.Metric.String()}
		}
	}
	return true, standardMetrics
}

func (m *measuring) override(name string, by *telemetry.MetricsOverrides) {
	if m.overrides[name] == nil {
		if m.overrides == nil {
			m.overrides, m.tags = map[string]*MetricOverride{}, map[string]map[string]*TagOverride{}
		}
		m.overrides[name], m.tags[name] = &MetricOverride{Metric: name}, map[string]*TagOverride{}
	}
	if v := by.GetDisabled(); v != nil {
		m.overrides[name].Disabled = v.GetValue()
	}
	for tag, t := range by.GetTagOverrides() {
		remove := t.GetOperation() == telemetry.MetricsOverrides_TagOverride_REMOVE
		m.tags[name][tag] = &TagOverride{Name: tag, Remove: remove}
		if !remove {
			m.tags[name][tag].Value = t.GetValue()
		}
	}
}

func (m *measuring) list() (out []MetricOverride) {
	for _, name := range sortedNames(m.overrides) {
		o := *m.overrides[name]
		for _, tag := range sortedNames(m.tags[name]) {
			o.Tags = append(o.Tags, *m.tags[name][tag])
		}
		out = append(out, o)
	}
	return out
}
