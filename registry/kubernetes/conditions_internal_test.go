package kubernetes

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/registry"
)

func TestConditionsOfOthersStay(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	there := []json.RawMessage{
		json.RawMessage(`{"type":"Reconciled","status":"True","lastProbeTime":null}`), json.RawMessage(`"odd"`),
		json.RawMessage(`{"type":"Accepted","status":"True","reason":"Accepted","message":"","observedGeneration":1,"lastTransitionTime":"2026-01-01T00:00:00Z"}`),
		json.RawMessage(`{"type":"HasWarnings","status":"True","reason":"Odd","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}`),
	}
	all, differs := merged(there, asOf([]registry.Condition{{Type: "Accepted", Status: "True", Reason: "Accepted"}, {Type: "Programmed", Status: "False", Reason: "Pending"}}, 2), now)
	require.True(t, differs)
	require.Len(t, all, 4)
	require.Equal(t, there[:2], all[:2])
	require.JSONEq(t, `{"type":"Accepted","status":"True","reason":"Accepted","message":"","observedGeneration":2,"lastTransitionTime":"2026-01-01T00:00:00Z"}`, string(all[2]))
	require.JSONEq(t, `{"type":"Programmed","status":"False","reason":"Pending","message":"","observedGeneration":2,"lastTransitionTime":"2026-11-27T12:00:00Z"}`, string(all[3]))

	again, differs := merged(all, asOf([]registry.Condition{{Type: "Accepted", Status: "True", Reason: "Accepted"}, {Type: "Programmed", Status: "False", Reason: "Pending"}}, 2), now.Add(time.Hour))
	require.False(t, differs)
	require.Equal(t, all, again)
	after, differs := merged(all, asOf([]registry.Condition{{Type: "Programmed", Status: "True", Reason: "Programmed"}}, 2), now.Add(time.Hour))
	require.True(t, differs)
	require.Len(t, after, 3, "what is over is there no more")
	require.Contains(t, string(after[2]), "2026-11-27T13:00:00Z", "the transition")
}
