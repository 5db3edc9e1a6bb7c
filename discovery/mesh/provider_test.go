package mesh_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/discovery/configstore"
	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/kinds"
)

// What telemetry goes to has clusters where a Sidecar does not show it to applications, as soon as
// it is there, and no longer than that.
func TestTelemetryReachesWhatApplicationsDoNotSee(t *testing.T) {
	t.Parallel()
	store := configstore.New()
	p := sidecar("bank", nil)
	at := mesh.Collector{Host: "col.ops", Port: 4317}
	m := mesh.Build(apply(t, store, collectors+"---"+onlyTheBank), nil)
	require.False(t, m.Scope(p).Reaches(at))
	step := func(text string) *mesh.Scope {
		m = mesh.Build(apply(t, store, text), m)
		return m.Scope(p)
	}
	scope := step(collector)
	require.True(t, scope.Reaches(at))
	require.Empty(t, scope.Egress[0].Services, "applications do not see it")
	require.Same(t, scope, step(entry("web", "shop", "hosts: [web.shop], "+port80)), "another service is no matter")
	moved := step(strings.ReplaceAll(collector, "10.0.9.9", "10.0.9.8"))
	require.Equal(t, "10.0.9.8", moved.Service("col.ops").Endpoints[0].Address)
	require.Equal(t, []string{"col.ops"}, moved.Since(scope).Hosts)
	require.False(t, step(strings.ReplaceAll(collector, "4317", "1")).Reaches(at), "the port is gone")
	require.True(t, step(collector).Reaches(at))
	require.False(t, step(strings.ReplaceAll(collector, "resolution: STATIC", "resolution: STATIC\n  exportTo: [shop]")).Reaches(at), "it is not exported to the namespace")
	key := kinds.Key{Kind: m.Scope(p).Sidecar.Kind, Namespace: "bank", Name: "own"}
	m = mesh.Build(store.Apply(kinds.Batch{Revision: 99, Changes: []kinds.Change{{Key: key}}}), m)
	require.False(t, m.Scope(p).Reaches(at))
}
