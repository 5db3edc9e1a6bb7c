package resources_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/clitest"
	"github.com/pgmesh/pgmesh/kinds"
)

func TestExplain(t *testing.T) {
	t.Parallel()
	explain := func(args ...string) clitest.Result {
		return clitest.Run(t.Context(), "", nil, append([]string{"explain"}, args...)...)
	}
	r := explain("vs.spec.http.retries")
	require.Equal(t, "VirtualService.spec.http.retries\nRetry policy for HTTP requests.\n", r.Err)
	require.NotContains(t, r.Out, "DESCRIPTION")
	require.Regexp(t, `(?m)^attempts .* Number of retries to be allowed for a given request.$`, explain("vs.http.retries", "-o", "wide").Out)
	require.Regexp(t, `(?m)^FIELD +TYPE +REQUIRED +VALUES +NOTE$`, r.Out)
	require.Regexp(t, `(?m)^perTryTimeout +duration `, r.Out)
	require.Regexp(t, `(?m)^attempts .* Number of retries to be allowed for a given request\.$`, r.Out)
	for line := range strings.Lines(explain("vs.http").Out) {
		if _, note, cut := strings.Cut(line, "…"); cut {
			require.Equal(t, "\n", note, "a long sentence is the last of a line")
		}
	}
	require.Contains(t, explain("vs.http").Out, "…\n")
	require.Equal(t, r.Out, explain("virtualservice.http.retries").Out)
	require.Contains(t, explain("gateways.gateway.networking.k8s.io.listeners", "-o", "name").Out, "hostname\n")
	require.Contains(t, explain("dr.trafficPolicy.loadBalancer.simple", "-o", "json").Out, `"LEAST_REQUEST"`)
	nested := explain("dr", "--recursive", "-o", "name").Out
	require.Contains(t, nested, "\ntrafficPolicy.outlierDetection.consecutive5xxErrors\n")
	require.Contains(t, nested, "\nsubsets.trafficPolicy.loadBalancer.simple\n")
	require.Regexp(t, `(?m)^perTryTimeout +duration `, explain("vs.http.retries", "--recursive").Out)
	require.Contains(t, explain("vs.metadata").Out, "resourceVersion")
	require.Equal(t, "labels\n", explain("vs.metadata.labels", "-o", "name").Out)

	secret := explain("secret")
	require.Zero(t, secret.Code, secret.Err)
	require.Contains(t, secret.Err, "Secret\nIt is written as Kubernetes does (apiVersion: v1), and has no spec. ")
	require.Equal(t, "type\ndata\nstringData\nserviceAccounts\n", explain("secrets", "-o", "name").Out)
	require.Equal(t, "stringData\n", explain("Secret.stringData", "-o", "name").Out)
	require.Equal(t, "labels\n", explain("secret.metadata.labels", "-o", "name").Out)
	for _, path := range []string{"vs.status", "vs.status.conditions"} {
		r := explain(path)
		require.Zero(t, r.Code, r.Err)
		require.Regexp(t, `(?m)^status +object .* The server writes it: mcp-client get virtualservice NAME -o yaml shows it\.$`, r.Out)
	}
	leaf := explain("vs.http.retries.retryOn")
	require.Equal(t, 1, strings.Count(leaf.Err+leaf.Out, "Specifies the conditions under which retry takes place"), leaf)
	wide := explain("vs.http.retries.retryOn", "-o", "wide")
	require.Equal(t, 1, strings.Count(wide.Err+wide.Out, "Specifies the conditions under which retry takes place"), wide)
	require.Contains(t, explain("vs.http.retries.retryOn", "-o", "json").Out, `"description": "Specifies the conditions`)

	for path, says := range map[string]string{
		"secret.spec":          `Secret has no field "spec"; mcp-client explain secret lists those`,
		"vs.metadata.labls":    `VirtualService.metadata has no field "labls"; mcp-client explain virtualservice.metadata lists those`,
		"vs.htp":               `VirtualService.spec has no field "htp" (did you mean "http"?)`,
		"vs.http.timeout.more": "VirtualService.spec.http.timeout has no fields of its own",
		"nothing":              "unknown kind",
	} {
		r := explain(path)
		require.NotZero(t, r.Code)
		require.Contains(t, r.Err, says)
	}
	for _, k := range kinds.All() {
		require.Zero(t, explain(k.Plural+"."+k.Group).Code, k.Name)
		require.Zero(t, explain(k.Plural+"."+k.Group, "--recursive").Code, k.Name)
	}
}
