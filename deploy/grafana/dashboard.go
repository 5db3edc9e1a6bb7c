// Package grafana describes the dashboards beside it: what each panel asks, and how it is shown. Its
// test writes the JSON that Grafana imports (go test ./deploy/grafana -update).
package grafana

import "strings"

// Dashboard is a page of panels, in rows.
type Dashboard struct {
	File, Title, About string
	// Choices are variables that people narrow the page down by, each a label of a metric.
	Choices []Choice
	Rows    []Row
}

// Choice is a variable with the values of a label, or all of them.
type Choice struct{ Name, Label, Metric string }

// Row is a heading, with panels side by side below it.
type Row struct {
	Title  string
	Panels []Panel
}

// Panel shows queries over time.
type Panel struct {
	Title, About string
	Unit         string // Grafana's name of it
	Queries      []Query
}

// Query is an expression, and how its series are called, by {{label}}.
type Query struct{ Expression, Legend string }

// All are the dashboards.
func All() []Dashboard { return []Dashboard{mesh(), proxies(), controlPlane()} }

// one is a panel with one query.
func one(title, unit, legend, expression, about string) Panel {
	return Panel{Title: title, Unit: unit, About: about, Queries: []Query{{expression, legend}}}
}

// quantiles is a panel with percentiles of a histogram.
func quantiles(title, unit, metric, selector, about string) Panel {
	p := Panel{Title: title, Unit: unit, About: about}
	for _, q := range [][2]string{{"0.5", "p50"}, {"0.9", "p90"}, {"0.99", "p99"}} {
		p.Queries = append(p.Queries, Query{
			"histogram_quantile(" + q[0] + ", sum by (le) (rate(" + metric + "_bucket{" + selector + "}[$__rate_interval])))", q[1],
		})
	}
	return p
}

// Plain is the expression as Grafana asks Prometheus where nothing was chosen, with rates over an
// interval such as 1m.
func (q Query) Plain(interval string) string {
	return strings.NewReplacer("$__rate_interval", interval, "$service", ".*", "$namespace", ".*").Replace(q.Expression)
}
