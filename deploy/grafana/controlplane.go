package grafana

// controlPlane is about the way of a change, and who is on it.
func controlPlane() Dashboard {
	return Dashboard{
		File: "control-plane.json", Title: "pgmesh: control plane", About: "From the commit to the proxies: how long changes take, who refuses them, who is behind, and which certificates end.",
		Rows: []Row{
			{"Changes", []Panel{
				quantiles("From commit to proxies", "s", "pgmesh_discovery_commit_to_ack_seconds", "", "Until a proxy has accepted what a change comes to."),
				quantiles("A push", "s", "pgmesh_discovery_push_seconds", "", "To translate a change for all proxies, and to offer it to them."),
				quantiles("From commit to server", "s", "pgmesh_mcp_server_publish_delay_seconds", "", ""),
				one("Changes", "cps", "{{instance}}", `sum by (instance) (rate(pgmesh_discovery_batches_total[$__rate_interval]))`, "Batches that came to each discovery."),
			}},
			{"Who is behind", []Panel{
				one("Proxies", "short", "{{state}}", `max by (state) (pgmesh_rollout_proxies)`, ""),
				one("The proxy furthest behind", "s", "since", `max(pgmesh_rollout_oldest_behind_seconds)`, "Those that refuse something are left aside."),
				{Title: "Revision", Unit: "none", Queries: []Query{
					{`max by (instance) (pgmesh_mcp_server_revision)`, "server {{instance}}"}, {`max by (instance) (pgmesh_discovery_revision)`, "discovery {{instance}}"},
				}},
				one("Batches that wait", "short", "{{instance}}", `max by (instance) (pgmesh_discovery_waiting_batches)`, ""),
			}},
			{"What is refused", []Panel{
				one("Resources that proxies refuse", "short", "{{type}}", `sum by (type) (pgmesh_discovery_refused_resources) or vector(0)`, "SELECT * FROM mesh.refusals says who, and why."),
				one("Answers", "cps", "{{answer}}", `sum by (answer) (rate(pgmesh_discovery_answers_total[$__rate_interval]))`, ""),
				one("Left out, since Envoy would refuse it", "short", "{{instance}}", `sum by (instance) (increase(pgmesh_discovery_invalid_total[$__rate_interval]))`, ""),
				one("Problems", "short", "{{instance}}", `max by (instance) (pgmesh_discovery_problems)`, "SELECT * FROM mesh.problems names them."),
			}},
			{"Machines", []Panel{
				one("Connected proxies", "short", "{{instance}}", `sum by (instance) (pgmesh_discovery_proxies)`, ""),
				one("Classes", "short", "{{instance}}", `sum by (instance) (pgmesh_discovery_classes)`, "Sets of proxies that get the same."),
				one("Machines that register", "short", "{{instance}}", `sum by (instance) (pgmesh_discovery_machines)`, ""),
				one("Streams", "short", "{{protocol}}", `sum by (protocol) (pgmesh_discovery_streams)`, ""),
			}},
			{"Certificates", []Panel{
				one("Given", "cps", "by {{by}}", `sum by (by) (rate(pgmesh_discovery_certificates_issued_total[$__rate_interval]))`, ""),
				one("Discoveries that can sign", "short", "", `sum(pgmesh_discovery_can_sign)`, ""),
				{Title: "Ends in", Unit: "s", Queries: []Query{
					{`min by (instance) (pgmesh_discovery_authority_not_after_seconds) - time()`, "authority of {{instance}}"},
					{`min by (instance) (pgmesh_discovery_identity_not_after_seconds) - time()`, "certificate of {{instance}}"},
				}},
				one("Records that wait", "short", "{{instance}}", `max by (instance) (pgmesh_discovery_certificate_records_waiting)`, "Certificates of which mcp-server has not heard yet."),
			}},
			{"Programs", []Panel{
				one("Database", "short", "{{instance}}", `min by (instance) (pgmesh_mcp_server_database_connected)`, "1 while a server reaches it."),
				one("Followed server", "short", "{{instance}}", `min by (instance) (pgmesh_discovery_mcp_connected)`, "1 while a discovery follows a server."),
				one("Memory", "bytes", "{{instance}}", `sum by (instance) (process_resident_memory_bytes{job="pgmesh-control-plane"})`, ""),
				one("CPU", "percentunit", "{{instance}}", `sum by (instance) (rate(process_cpu_seconds_total{job="pgmesh-control-plane"}[$__rate_interval]))`, "Share of one core."),
				one("Panics", "short", "{{instance}}", `sum by (instance) (increase(pgmesh_panics_total[$__rate_interval])) or vector(0)`, "Each is a bug, and in the log."),
			}},
		},
	}
}
