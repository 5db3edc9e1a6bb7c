package verdict_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/conformance/gatewayapi/verdict"
)

func TestOnlySurprisesAreTold(t *testing.T) {
	t.Parallel()
	outcomes := map[string]verdict.Outcome{"A": verdict.Passed, "B": verdict.Failed, "C": verdict.Failed, "D": verdict.Passed, "E": verdict.Skipped}
	reasons := map[string]string{"C": "Envoy cannot", "D": "once", "E": "not run", "F": "gone"}
	require.Equal(t, []string{
		"B failed",
		"D passed: take it off the list of those that are expected to fail",
	}, verdict.Judge(outcomes, reasons, false))
	require.Equal(t, []string{
		"B failed",
		"D passed: take it off the list of those that are expected to fail",
		"F is on the list of tests that are expected to fail, and there is no such test",
	}, verdict.Judge(outcomes, reasons, true))
}

func TestProfilesAreSummedUp(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	require.NoError(t, verdict.Summarize(&out, []byte(`
apiVersion: gateway.networking.k8s.io/v1
kind: ConformanceReport
profiles:
- name: GATEWAY-HTTP
  core: {result: success, statistics: {Passed: 33, Failed: 0, Skipped: 0}}
  extended: {result: failure, statistics: {Passed: 27, Failed: 1, Skipped: 2}}
- name: GATEWAY-GRPC
  core: {result: success, statistics: {Passed: 13, Failed: 0, Skipped: 0}}
`)))
	require.Equal(t, []string{
		"PROFILE       TESTS     PASSED  FAILED  SKIPPED",
		"GATEWAY-HTTP  core      33      0       0",
		"GATEWAY-HTTP  extended  27      1       2",
		"GATEWAY-GRPC  core      13      0       0",
	}, strings.Split(strings.TrimSpace(out.String()), "\n"))
}

func TestEachExpectedFailureHasAReason(t *testing.T) {
	t.Parallel()
	_, err := verdict.Expected()
	require.NoError(t, err)
}
