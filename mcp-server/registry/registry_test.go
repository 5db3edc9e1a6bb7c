package registry_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	machinev1 "github.com/pgmesh/pgmesh/proto/pgmesh/machine/v1"
)

func TestAMachineHasAnEntryWhileItIsThere(t *testing.T) {
	t.Parallel()
	b := begin(t)
	s := b.serve(patient)
	d := s.discovery("eu")
	m := here("m1", "10.0.0.1", 1, func(c *machinev1.Change) {
		c.Locality, c.Network, c.Labels = "eu/a", "vpc", map[string]string{"zone": "a", "version": "v1"}
		c.Service.Ports, c.Service.Labels, c.Service.Weight = map[string]uint32{"admin": 9000}, map[string]string{"version": "v2"}, 5
	})
	require.Equal(t, "web-10.0.0.1-vpc", d.told(m).GetEntry())
	require.JSONEq(t, `{"address": "10.0.0.1", "network": "vpc", "locality": "eu/a", "weight": 5, "serviceAccount": "web", "ports": {"http": 8080, "admin": 9000},
		"labels": {"app": "web", "zone": "a", "version": "v2"}}`, one[string](b, "SELECT spec::text FROM mesh.resources WHERE kind = 'WorkloadEntry'"))
	require.JSONEq(t, `{"istio.io/autoRegistrationGroup": "web", "mesh.pgmesh.io/machine": "m1"}`, one[string](b, "SELECT annotations::text FROM mesh.resources WHERE kind = 'WorkloadEntry'"))

	m.Service.Health, m.Service.Detail = machinev1.Health_HEALTH_UNHEALTHY, "GET /healthz: 503"
	d.told(m)
	const health = "SELECT annotations ->> 'mesh.pgmesh.io/health' FROM mesh.resources WHERE kind = 'WorkloadEntry'"
	require.Equal(t, "unhealthy: GET /healthz: 503", one[string](b, health))
	require.Equal(t, "true", one[string](b, "SELECT annotations ->> 'proxy.istio.io/health-checks-enabled' FROM mesh.resources WHERE kind = 'WorkloadEntry'"), "for istiods")
	m.Service.Health, m.Service.Detail = machinev1.Health_HEALTH_UNSPECIFIED, ""
	d.told(m)
	require.Equal(t, "unhealthy: GET /healthz: 503", one[string](b, health), "as long as nobody knows otherwise")

	m.Service.Health = machinev1.Health_HEALTH_DRAINING
	require.Equal(t, "web-10.0.0.1-vpc", d.told(m).GetEntry())
	require.Equal(t, "draining", one[string](b, health))
	require.Equal(t, "draining", one[string](b, "SELECT health FROM mesh.registered_machines"))
	m.Service.Health, m.Since = machinev1.Health_HEALTH_UNSPECIFIED, m.GetSince()+1
	d.told(m)
	require.Equal(t, "unknown", one[string](b, health), "the agent was killed while it drained, and the next one does not drain")

	before := b.newest()
	require.Equal(t, "web-10.0.0.1-vpc", d.told(m).GetEntry())
	require.Equal(t, before, b.newest(), "nothing has changed")
	require.Empty(t, d.told(left(m)).GetEntry())
	require.Empty(t, b.entries())
}
