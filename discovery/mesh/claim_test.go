package mesh_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/discovery/mesh"
)

// joined is a ServiceEntry for one host that comes from a registry of some rank, 0 for the mesh's own.
func joined(name, namespace, rank, address string) string {
	return "---\napiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: " + name + ", namespace: " + namespace +
		", annotations: {pgmesh.io/origin: registry" + rank + ", pgmesh.io/origin-rank: '" + rank + "'}}\n" +
		"spec: {hosts: [x.example.com], resolution: STATIC, " + port80 + ", endpoints: [{address: " + address + "}]}\n"
}

func TestTheMeshsOwnServicesCountBeforeThoseOfRegistries(t *testing.T) {
	t.Parallel()
	own := entryAt("own", "default", "9", "resolution: STATIC, "+port80+", endpoints: [{address: 10.0.0.1}]") // younger than all
	for name, c := range map[string]struct {
		documents string
		want      string
		problems  []string
	}{
		"its own alone":                      {own, "10.0.0.1:80", nil},
		"its own before a registry":          {joined("consul.x", "default", "1", "10.0.0.2") + own, "10.0.0.1:80", []string{"ServiceEntry default/consul.x"}},
		"in another namespace":               {joined("consul.x", "consul", "1", "10.0.0.2") + own, "10.0.0.1:80", []string{"ServiceEntry consul/consul.x"}},
		"the registry that was named first":  {joined("b.x", "default", "1", "10.0.0.3") + joined("a.x", "default", "2", "10.0.0.2"), "10.0.0.3:80", []string{"ServiceEntry default/a.x"}},
		"two of one registry share the host": {joined("b.x", "default", "1", "10.0.0.3") + joined("c.x", "default", "1", "10.0.0.4"), "10.0.0.3:80 10.0.0.4:80", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := build(t, c.documents)
			require.Equal(t, c.want, servedAt(m.Scope(sidecar("other", nil)).Service("x.example.com")))
			var problems []string
			for _, p := range m.Problems() {
				problems = append(problems, p.Of.String())
				require.Contains(t, p.Reason, "which counts before what the registry")
			}
			require.Equal(t, c.problems, problems)
		})
	}
}

// inSet is what joined has, of a registry of a set.
func inSet(set, documents string) string {
	return strings.ReplaceAll(documents, "annotations: {", "annotations: {pgmesh.io/origin-set: "+set+", ")
}

func TestRegistriesOfASetHaveAServiceTogether(t *testing.T) {
	t.Parallel()
	first, second, third := joined("a.x", "default", "1", "10.0.0.1"), joined("b.x", "default", "2", "10.0.0.2"), joined("c.x", "default", "3", "10.0.0.3")
	for name, c := range map[string]struct {
		documents string
		want      string
		problems  []string
	}{
		"two":                       {inSet("s", first+second), "10.0.0.1:80 10.0.0.2:80", nil},
		"two of three":              {inSet("s", first) + second + inSet("s", third), "10.0.0.1:80 10.0.0.3:80", []string{"ServiceEntry default/b.x"}},
		"none of another set":       {inSet("s", first) + inSet("other", second), "10.0.0.1:80", []string{"ServiceEntry default/b.x"}},
		"none beside the mesh's":    {inSet("s", first+second) + entryAt("own", "default", "9", "resolution: STATIC, "+port80+", endpoints: [{address: 10.0.0.9}]"), "10.0.0.9:80", []string{"ServiceEntry default/a.x", "ServiceEntry default/b.x"}},
		"none of another namespace": {inSet("s", first+joined("b.x", "elsewhere", "2", "10.0.0.2")), "10.0.0.1:80", []string{"ServiceEntry elsewhere/b.x"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := build(t, c.documents)
			require.Equal(t, c.want, servedAt(m.Scope(sidecar("default", nil)).Service("x.example.com")))
			var problems []string
			for _, p := range m.Problems() {
				problems = append(problems, p.Of.String())
			}
			require.Equal(t, c.problems, problems)
		})
	}
}

// Which services of a host count may change in their middle, and addresses that were given stay.
func TestASetKeepsTheAddressesOfItsServices(t *testing.T) {
	t.Parallel()
	all := inSet("s", joined("a.x", "default", "1", "10.0.0.1")) + joined("b.x", "default", "2", "10.0.0.2") + inSet("s", joined("c.x", "default", "3", "10.0.0.3"))
	before, after := afterEdit(t, all, inSet("s", joined("c.x", "default", "3", "10.0.0.4")))
	was, is := before.Scope(sidecar("default", nil)).Service("x.example.com"), after.Scope(sidecar("default", nil)).Service("x.example.com")
	require.Equal(t, "10.0.0.1:80 10.0.0.4:80", servedAt(is))
	require.Equal(t, was.Allocated, is.Allocated)
	require.NotEmpty(t, is.Allocated)
	require.Same(t, was.Shape, is.Shape, "its endpoints alone are others")
}

func servedAt(s *mesh.Service) string {
	var at []string
	for _, e := range s.Endpoints {
		at = append(at, hostPort(e))
	}
	return strings.Join(at, " ")
}

func TestAnEndpointWithinAnEntryMayBeUnhealthy(t *testing.T) {
	t.Parallel()
	m := build(t, entry("a", "default", "hosts: [a.example.com], "+port80+
		", endpoints: [{address: 10.0.0.1, labels: {version: v1, mesh.pgmesh.io/health: unhealthy}}, {address: 10.0.0.2, labels: {mesh.pgmesh.io/health: unknown}}, {address: 10.0.0.3}]"))
	var unhealthy []bool
	for _, e := range m.Services()[0].Endpoints {
		unhealthy = append(unhealthy, e.Unhealthy)
		require.NotContains(t, e.Labels, "mesh.pgmesh.io/health", "it is no label of the workload")
	}
	require.Equal(t, []bool{true, true, false}, unhealthy)
	require.Equal(t, map[string]string{"version": "v1"}, m.Services()[0].Endpoints[0].Labels)
}
