package kubernetes

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Where a cluster drops who has written an entry, ours are not written beside themselves again and again.
func TestEntriesWithoutAController(t *testing.T) {
	t.Parallel()
	status := func(text string) (s statusObject) {
		require.NoError(t, json.Unmarshal([]byte(text), &s))
		return s
	}
	const (
		condition = `"conditions": [{"type": "Accepted", "status": "True", "reason": "Accepted", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1}]`
		other     = `{"parentRef": {"name": "other"}, ` + condition + `}`
		edge      = `{"parentRef": {"name": "edge"}, ` + condition + `}`
		ours      = `{"parentRef": {"name": "edge"}, "controllerName": "pgmesh.io/gateway-controller", ` + condition + `}`
	)
	written := func(there, want string) (parents string, differs bool) {
		body, differs := shaped(status(`{"parents": [`+there+`]}`), status(`{"parents": [`+want+`]}`), 1, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
		text, err := json.Marshal(body["parents"])
		require.NoError(t, err)
		return string(text), differs
	}
	parents, differs := written(other+", "+edge, ours)
	require.False(t, differs, "it says so already")
	require.JSONEq(t, "["+other+", "+ours+"]", parents)
	parents, differs = written(other, ours)
	require.True(t, differs)
	require.JSONEq(t, "["+other+", "+ours+"]", parents)
	_, differs = written(other+", "+edge, "")
	require.False(t, differs, "it may be another controller's")
	parents, differs = written(other+", "+ours, "")
	require.True(t, differs)
	require.JSONEq(t, "["+other+"]", parents)
}
