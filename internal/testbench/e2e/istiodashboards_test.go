package e2e

import (
	"fmt"
	"slices"
	"strings"
)

// chosenBy are the labels by which Istio's public dashboards for meshes, services and workloads
// choose and add up series. All of them know both ends of a request or connection.
var chosenBy = []string{
	"destination_service", "destination_workload", "destination_workload_namespace", "destination_cluster",
	"source_workload", "source_workload_namespace", "source_cluster", "connection_security_policy",
}

// shownByIstio are the metrics on these dashboards, each with the labels that it has beside those.
// They also name istio_build, which docs/standard-metrics.md says is none of ours.
var shownByIstio = map[string][]string{
	"istio_requests_total":                       {"response_code", "destination_principal"},
	"istio_request_duration_milliseconds_bucket": {"le"},
	"istio_request_bytes_bucket":                 {"le"},
	"istio_response_bytes_bucket":                {"le"},
	"istio_request_bytes_sum":                    nil,
	"istio_response_bytes_sum":                   nil,
	"istio_tcp_sent_bytes_total":                 nil,
	"istio_tcp_received_bytes_total":             nil,
}

// chosenValues are values that Istio's dashboards look for.
var chosenValues = []string{
	`istio_requests_total{reporter="source", response_code=~"5.."}`,
	`istio_requests_total{reporter="source", destination_principal=~"spiffe.*"}`,
	`istio_requests_total{reporter="destination", connection_security_policy="mutual_tls"}`,
	`istio_tcp_sent_bytes_total{reporter="destination", connection_security_policy="mutual_tls"}`,
	`istio_tcp_received_bytes_total{reporter="source", connection_security_policy!="mutual_tls"}`,
}

// queriesOfIstio ask for what grows on both sides and has all labels.
func queriesOfIstio() (queries []string) {
	for metric, labels := range shownByIstio {
		for _, reporter := range []string{"source", "destination"} {
			all := slices.Concat(labels, chosenBy)
			queries = append(queries, fmt.Sprintf(`sum by (%s) (rate(%s{reporter="%s", %s!=""}[15s])) > 0`,
				strings.Join(all, ", "), metric, reporter, strings.Join(all, `!="", `)))
		}
	}
	for _, selected := range chosenValues {
		queries = append(queries, "sum(rate("+selected+"[15s])) > 0")
	}
	return queries
}
