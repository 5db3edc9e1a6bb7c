package inspect_test

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/discovery/push"
)

// The names on the pages, and those of metrics, are an interface. Each is explained in the docs.
func TestEveryNameIsDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/debugging.md")
	require.NoError(t, err)
	text := string(page)
	b := start(t)
	b.apply(web)
	p, slow := b.connect(node("sidecar", "10.0.0.1", "vm-1"), push.ClusterType, push.EndpointType), b.connect(node("sidecar", "10.0.0.2", "vm-2"), push.ClusterType)
	p.accept(2)
	slow.receive()
	b.apply(timeout)
	p.nack(p.receive(), "no")
	eventually(b, "/debug/push", func(q queue) bool { return len(q.Behind) == 2 && q.Pushes[0].Nacks == 1 })

	for _, path := range []string{"/debug/proxies", "/debug/clusters?proxy=vm-1", "/debug/push", "/debug/classes"} {
		name, _, _ := strings.Cut(path, "?")
		require.Contains(t, text, "### "+name)
		for key := range keysOf(shown[any](b, path), map[string]bool{}) {
			require.Regexp(t, "`"+key+"`|\""+key+"\":", text, "%s of %s", key, path)
		}
	}
	_, metrics := b.get("/metrics")
	for _, found := range regexp.MustCompile(`(?m)^# TYPE (pgmesh_\w+)`).FindAllStringSubmatch(metrics, -1) {
		require.Regexp(t, "`"+found[1]+"[`{]", text)
	}
	for _, found := range regexp.MustCompile("`(pgmesh_discovery_[a-z_]+)").FindAllStringSubmatch(text, -1) {
		if !strings.Contains(metrics, found[1]) {
			require.Contains(t, elsewhere, found[1])
		}
	}
}

// elsewhere are metrics of sources and of an identity that the test does not have, and of events
// that do not happen in it.
var elsewhere = []string{
	"pgmesh_discovery_renewals_exceeded_total",
	"pgmesh_discovery_mcp_connected", "pgmesh_discovery_mcp_server_info", "pgmesh_discovery_mcp_losses_total", "pgmesh_discovery_mcp_unanswered_types",
	"pgmesh_discovery_mcp_held_resources", "pgmesh_discovery_unreceived_total", "pgmesh_discovery_secrets_denied_total",
	"pgmesh_discovery_proxies_refused_total", "pgmesh_discovery_streams_renewed_total",
	"pgmesh_discovery_certificates_issued_total", "pgmesh_discovery_certificates_refused_total",
	"pgmesh_discovery_signing_seconds", "pgmesh_discovery_certificate_records_waiting", "pgmesh_discovery_certificate_records_lost_total",
	"pgmesh_discovery_can_sign", "pgmesh_discovery_authority_not_after_seconds", "pgmesh_discovery_trust_connected", "pgmesh_discovery_trust_stale_seconds",
	"pgmesh_discovery_identity_not_after_seconds", "pgmesh_discovery_identity_renewals_total",
	"pgmesh_discovery_limit_wait_seconds", "pgmesh_discovery_limit_refusals_total", "pgmesh_discovery_limits_exceeded_total",
	"pgmesh_discovery_files_unusable", "pgmesh_discovery_files_loaded_total", "pgmesh_discovery_tls_not_after_seconds",
	"pgmesh_discovery_arrival_to_ack_seconds", "pgmesh_discovery_commit_to_ack_seconds",
}

// keysOf collects the names of fields.
func keysOf(tree any, into map[string]bool) map[string]bool {
	switch tree := tree.(type) {
	case map[string]any:
		for key, value := range tree {
			into[key] = true
			keysOf(value, into)
		}
	case []any:
		for _, value := range tree {
			keysOf(value, into)
		}
	case json.Number, string, bool, float64, nil:
	}
	return into
}
