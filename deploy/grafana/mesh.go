package grafana

// served selects what servers saw of the chosen services. Clients count the same requests once
// more, and those that reached no server.
const served, sent = `reporter="destination", destination_service=~"$service"`, `reporter="source", destination_service=~"$service"`

// mesh is about Istio's standard metrics.
func mesh() Dashboard {
	return Dashboard{
		File: "mesh.json", Title: "pgmesh: mesh", About: "Requests and connections between the services of the mesh, by Istio's standard metrics.",
		Choices: []Choice{{"service", "destination_service", "istio_requests_total"}},
		Rows: []Row{
			{"Requests", []Panel{
				one("Requests", "reqps", "{{destination_service}}", `sum by (destination_service) (rate(istio_requests_total{`+served+`}[$__rate_interval]))`, "What servers were asked."),
				one("Share of errors", "percentunit", "{{destination_service}}",
					`sum by (destination_service) (rate(istio_requests_total{`+sent+`, response_code=~"5.."}[$__rate_interval])) / sum by (destination_service) (rate(istio_requests_total{`+sent+`}[$__rate_interval])) or 0 * sum by (destination_service) (rate(istio_requests_total{`+sent+`}[$__rate_interval]))`,
					"Answers of 500 and above as clients saw them, also those that their own Envoy gave."),
				one("By status", "reqps", "{{response_code}}", `sum by (response_code) (rate(istio_requests_total{`+sent+`}[$__rate_interval]))`, ""),
			}},
			{"Duration", []Panel{
				quantiles("Duration at clients", "ms", "istio_request_duration_milliseconds", sent, "From the first byte of a request to the last of its answer."),
				one("99th percentile by service", "ms", "{{destination_service}}",
					`histogram_quantile(0.99, sum by (le, destination_service) (rate(istio_request_duration_milliseconds_bucket{`+served+`}[$__rate_interval])))`, "As servers saw it."),
			}},
			{"Who asks whom", []Panel{
				one("Requests by caller", "reqps", "{{source_workload}} → {{destination_workload}}",
					`sum by (source_workload, destination_workload) (rate(istio_requests_total{`+served+`}[$__rate_interval]))`, ""),
				one("Security of connections", "reqps", "{{connection_security_policy}}", `sum by (connection_security_policy) (rate(istio_requests_total{`+served+`}[$__rate_interval]))`,
					"Requests over mutual TLS, and others."),
				one("Flags of Envoy", "reqps", "{{response_flags}}", `sum by (response_flags) (rate(istio_requests_total{`+sent+`}[$__rate_interval]))`, "Why Envoy answered itself: UF, UH, UO, URX. A hyphen is none."),
			}},
			{"Sizes", []Panel{
				quantiles("Size of requests", "bytes", "istio_request_bytes", served, ""),
				quantiles("Size of answers", "bytes", "istio_response_bytes", served, ""),
			}},
			{"Connections", []Panel{
				{Title: "TCP connections", Unit: "cps", Queries: []Query{
					{`sum(rate(istio_tcp_connections_opened_total{` + served + `}[$__rate_interval]))`, "opened"},
					{`sum(rate(istio_tcp_connections_closed_total{` + served + `}[$__rate_interval]))`, "closed"},
				}},
				{Title: "Bytes over TCP", Unit: "Bps", Queries: []Query{
					{`sum by (destination_service) (rate(istio_tcp_sent_bytes_total{` + served + `}[$__rate_interval]))`, "{{destination_service}} sent"},
					{`sum by (destination_service) (rate(istio_tcp_received_bytes_total{` + served + `}[$__rate_interval]))`, "{{destination_service}} received"},
				}},
			}},
		},
	}
}
