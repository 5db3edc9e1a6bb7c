package adsmetrics

// Names are what the metrics are called in one program.
type Names struct {
	Streams, Responses, Resources, ResponseBytes, Answers, AnswerSeconds, RefusedResources, LimitWaits, LimitRefusals, Unreceived string
}

// MCPServer are the names in mcp-server.
var MCPServer = Names{
	Streams:          "pgmesh_mcp_server_streams",
	Responses:        "pgmesh_mcp_server_responses_total",
	Resources:        "pgmesh_mcp_server_resources_total",
	ResponseBytes:    "pgmesh_mcp_server_response_bytes",
	Answers:          "pgmesh_mcp_server_answers_total",
	AnswerSeconds:    "pgmesh_mcp_server_answer_seconds",
	RefusedResources: "pgmesh_mcp_server_refused_resources",
	LimitWaits:       "pgmesh_mcp_server_limit_wait_seconds",
	LimitRefusals:    "pgmesh_mcp_server_limit_refusals_total",
	Unreceived:       "pgmesh_mcp_server_unreceived_total",
}

// Discovery are the names in discovery.
var Discovery = Names{
	Streams:          "pgmesh_discovery_streams",
	Responses:        "pgmesh_discovery_responses_total",
	Resources:        "pgmesh_discovery_resources_total",
	ResponseBytes:    "pgmesh_discovery_response_bytes",
	Answers:          "pgmesh_discovery_answers_total",
	AnswerSeconds:    "pgmesh_discovery_answer_seconds",
	RefusedResources: "pgmesh_discovery_refused_resources",
	LimitWaits:       "pgmesh_discovery_limit_wait_seconds",
	LimitRefusals:    "pgmesh_discovery_limit_refusals_total",
	Unreceived:       "pgmesh_discovery_unreceived_total",
}
