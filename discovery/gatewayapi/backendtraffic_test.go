package gatewayapi_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/discovery/gatewayapi"
)

func trafficText(name, targets, said string) string {
	return "---\napiVersion: gateway.networking.x-k8s.io/v1alpha1\nkind: XBackendTrafficPolicy\nmetadata: {name: " + name + "}\nspec: {targetRefs: [" + targets + "]" + said + "}\n"
}

// What a policy leaves out is as the API says.
func TestPoliciesBoundRetries(t *testing.T) {
	t.Parallel()
	all := secured(t, trafficText("usual", toWeb, ", retryConstraint: {}")+
		trafficText("said", toWeb, ", retryConstraint: {budget: {percent: 5, interval: 1m}, minRetryRate: {count: 3, interval: 1s}}")+trafficText("none", toWeb, ""), nil)
	usual, said := all[0].Retries, all[1].Retries
	require.InDelta(t, 20, usual.GetPercent().GetValue(), 0)
	require.Equal(t, int64(10), usual.GetBudgetInterval().GetSeconds())
	require.Equal(t, uint32(10), usual.GetMinRetryConcurrency())
	require.InDelta(t, 5, said.GetPercent().GetValue(), 0)
	require.Equal(t, int64(60), said.GetBudgetInterval().GetSeconds())
	require.Equal(t, uint32(3), said.GetMinRetryConcurrency())
	require.Nil(t, all[2].Retries)
}

// The oldest policy for a target holds, beside those about TLS. What cannot be meant is told.
func TestTheOldestTrafficPolicyHolds(t *testing.T) {
	t.Parallel()
	all := secured(t, policyText("tls", toWeb, byMachine)+trafficText("older", toWeb, ", sessionPersistence: {sessionName: a}")+
		trafficText("later", toWeb, ", sessionPersistence: {sessionName: b}")+trafficText("wrong", "{group: networking.istio.io, kind: Hostname, name: other.com}", ", sessionPersistence: {sessionName: 'a b'}"), nil)
	held := gatewayapi.Hold(webHost, all, []string{"http"})
	require.Equal(t, "older", held.Traffic.Resource.Name)
	require.Equal(t, gatewayapi.Session{Name: "a"}, *held.Traffic.Session)
	require.Equal(t, "tls", held.Every.Resource.Name)
	require.Len(t, held.From(), 2)
	require.Equal(t, map[string]string{
		"tls": "web " + taken, "older": "web Accepted=True:Accepted", "later": "web Accepted=False:Conflicted", "wrong": "web Accepted=False:Invalid",
	}, standings(all, []string{"http"}))
	problems := all[3].AllProblems(all[3].Effect)
	require.Len(t, problems, 1)
	require.Equal(t, "spec.sessionPersistence", problems[0].Path)
}
