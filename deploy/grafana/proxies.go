package grafana

// upstream selects the clusters of the chosen services.
const upstream = `direction="outbound", service=~"$service"`

// proxies is about Envoy's own metrics, and those of the agents beside them.
func proxies() Dashboard {
	return Dashboard{
		File: "proxies.json", Title: "pgmesh: proxies", About: "What the Envoys of the machines do, by their own metrics.",
		Choices: []Choice{{"service", "service", "envoy_cluster_membership_total"}, {"namespace", "namespace", "up"}},
		Rows: []Row{
			{"Machines", []Panel{
				one("Machines that answer", "short", "{{namespace}}", `sum by (namespace) (up{job="pgmesh-machines", namespace=~"$namespace"})`, "Whose agents Prometheus reaches."),
				one("Agents with a discovery", "short", "{{namespace}}", `sum by (namespace) (pgmesh_mesh_agent_discovery_connected{namespace=~"$namespace"})`, ""),
				one("Certificates end in", "s", "{{proxy}}", `min by (proxy) (pgmesh_mesh_agent_identity_not_after_seconds{namespace=~"$namespace"}) - time()`, "Agents renew them long before."),
				{Title: "Configuration refused", Unit: "short", Queries: []Query{
					{`sum by (proxy) (envoy_cluster_manager_cds_update_rejected{namespace=~"$namespace"} + envoy_listener_manager_lds_update_rejected{namespace=~"$namespace"})`, "{{proxy}}"},
				}},
			}},
			{"To services", []Panel{
				one("Requests", "reqps", "{{service}}", `sum by (service) (rate(envoy_cluster_upstream_rq_total{`+upstream+`}[$__rate_interval]))`, ""),
				one("By class of status", "reqps", "{{response_code_class}}xx", `sum by (response_code_class) (rate(envoy_cluster_upstream_rq_xx{`+upstream+`}[$__rate_interval]))`, ""),
				quantiles("Duration", "ms", "envoy_cluster_upstream_rq_time", upstream, ""),
				one("Retries", "reqps", "{{service}}", `sum by (service) (rate(envoy_cluster_upstream_rq_retry{`+upstream+`}[$__rate_interval]))`, ""),
			}},
			{"Endpoints", []Panel{
				one("Share that is healthy", "percentunit", "{{service}}", `avg by (service) (envoy_cluster_membership_healthy{`+upstream+`} / (envoy_cluster_membership_total{`+upstream+`} > 0))`, "As the proxies see them."),
				one("Connections", "short", "{{service}}", `sum by (service) (envoy_cluster_upstream_cx_active{`+upstream+`})`, ""),
				{Title: "Connections that failed", Unit: "cps", Queries: []Query{
					{`sum by (service) (rate(envoy_cluster_upstream_cx_connect_fail{` + upstream + `}[$__rate_interval]))`, "{{service}} refused"},
					{`sum by (service) (rate(envoy_cluster_upstream_cx_connect_timeout{` + upstream + `}[$__rate_interval]))`, "{{service}} in vain"},
				}},
				one("Requests that found no room", "reqps", "{{service}}", `sum by (service) (rate(envoy_cluster_upstream_rq_pending_overflow{`+upstream+`}[$__rate_interval]))`, "A connection pool of a DestinationRule was full."),
			}},
			{"From clients", []Panel{
				one("Requests", "reqps", "{{direction}} {{response_code_class}}xx",
					`sum by (direction, response_code_class) (rate(envoy_http_downstream_rq_xx{direction!="", namespace=~"$namespace"}[$__rate_interval]))`, "Inbound is what a machine serves, outbound what its applications ask."),
				one("Connections", "short", "{{listener_address}}", `sum by (listener_address) (envoy_listener_downstream_cx_active{namespace=~"$namespace"})`, ""),
				one("Bytes", "Bps", "{{direction}}", `sum by (direction) (rate(envoy_http_downstream_cx_rx_bytes_total{direction!="", namespace=~"$namespace"}[$__rate_interval]))`, ""),
			}},
			{"Envoy", []Panel{
				one("Memory", "bytes", "{{proxy}}", `sum by (proxy) (envoy_server_memory_allocated{namespace=~"$namespace"})`, ""),
				one("Memory of the process", "bytes", "{{proxy}}", `sum by (proxy) (envoy_server_memory_physical_size{namespace=~"$namespace"})`, ""),
				one("Running since", "s", "{{proxy}}", `max by (proxy) (envoy_server_uptime{namespace=~"$namespace"})`, ""),
				one("Watchdog", "short", "{{proxy}}", `sum by (proxy) (increase(envoy_server_watchdog_miss{namespace=~"$namespace"}[$__rate_interval]))`, "A thread that was stuck."),
			}},
		},
	}
}
