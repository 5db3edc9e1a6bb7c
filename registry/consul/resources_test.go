package consul

import (
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/registry/consul/catalog"
)

// entries are the ServiceEntries of a service with instances of one datacenter, by their names. They
// fit the rules of their kind.
func entries(t *testing.T, parameters, name string, all ...catalog.Instance) map[string]*networking.ServiceEntry {
	t.Helper()
	at, err := url.Parse("consul://127.0.0.1/?" + parameters)
	require.NoError(t, err)
	s, err := read(at)
	require.NoError(t, err)
	resources, err := s.resources(name, map[string][]catalog.Instance{"": all}, false)
	require.NoError(t, err)
	out := map[string]*networking.ServiceEntry{}
	for _, r := range resources {
		spec, err := r.SpecJSON()
		require.NoError(t, err)
		require.Empty(t, r.Kind.Check(spec, kinds.Meta{Name: r.Name, Namespace: r.Namespace, Labels: r.Labels, Annotations: r.Annotations}))
		out[r.Name] = r.Spec.Message().(*networking.ServiceEntry)
	}
	return out
}

func at(address string, port int, change ...func(*catalog.Instance)) catalog.Instance {
	i := catalog.Instance{Address: address, Port: port, Datacenter: "dc1", Weight: 1, Meta: map[string]string{"protocol": "http"}}
	for _, c := range change {
		c(&i)
	}
	return i
}

func meta(key, value string) func(*catalog.Instance) {
	return func(i *catalog.Instance) { i.Meta = map[string]string{"protocol": "http", key: value} }
}

func numbers(e *networking.ServiceEntry) []uint32 {
	var out []uint32
	for _, p := range e.GetPorts() {
		out = append(out, p.GetNumber())
	}
	return out
}

func TestAServiceHasAHostOfItsOwnAndOneOfItsDatacenter(t *testing.T) {
	t.Parallel()
	hosts := func(all map[string]*networking.ServiceEntry) []string {
		var out []string
		for _, e := range all {
			out = append(out, e.GetHosts()...)
		}
		return out
	}
	web := at("10.0.0.1", 80)
	require.Equal(t, []string{"web.service.consul", "web.service.dc1.consul"}, hosts(entries(t, "", "web", web)))
	require.Equal(t, []string{"web.service.consul"}, hosts(entries(t, "hosts=short", "web", web)))
	require.Equal(t, []string{"web.service.dc1.example.com"}, hosts(entries(t, "hosts=datacenter&domain=example.com", "web", web)))
	tcp := at("10.0.0.1", 80, func(i *catalog.Instance) { i.Meta = nil })
	require.Len(t, entries(t, "", "web", tcp), 2, "nothing but the host tells requests apart")
}

func TestInstancesOnDifferentPorts(t *testing.T) {
	t.Parallel()
	two := entries(t, "", "web", at("10.0.0.1", 8080), at("10.0.0.2", 9090))["consul.web"]
	require.Equal(t, []uint32{8080, 9090}, numbers(two))
	require.Equal(t, map[string]uint32{"http-9090": 8080}, two.GetEndpoints()[0].GetPorts(), "each is reached at its own by all")
	require.Equal(t, map[string]uint32{"http-8080": 9090}, two.GetEndpoints()[1].GetPorts())

	drawn := []catalog.Instance{at("10.0.0.1", 20001), at("10.0.0.2", 20002), at("10.0.0.3", 20003), at("10.0.0.4", 20004), at("10.0.0.5", 20005)}
	require.Equal(t, []uint32{80}, numbers(entries(t, "", "web", drawn...)["consul.web"]))
	require.Equal(t, []uint32{443}, numbers(entries(t, "port=443", "web", drawn...)["consul.web"]))
	require.Equal(t, []uint32{7000}, numbers(entries(t, "port=443", "web", at("10.0.0.1", 20001, meta("mesh-port", "7000")))["consul.web"]))
}

func TestHealthWeightAndPlace(t *testing.T) {
	t.Parallel()
	status := func(s catalog.Status, weight int) func(*catalog.Instance) {
		return func(i *catalog.Instance) { i.Status, i.Weight = s, weight }
	}
	all := []catalog.Instance{
		at("10.0.0.1", 80, status(catalog.Passing, 7)), at("10.0.0.2", 80, status(catalog.Warning, 2)),
		at("10.0.0.3", 80, status(catalog.Critical, 1)), at("10.0.0.4", 80, status(catalog.Warning, 0)),
	}
	health := func(e *networking.ServiceEntry) (out []string) {
		for _, w := range e.GetEndpoints() {
			out = append(out, w.GetLabels()[kinds.HealthLabel])
		}
		return out
	}
	entry := entries(t, "", "web", all...)["consul.web"]
	require.Equal(t, []string{"", "", "unhealthy", "unhealthy"}, health(entry))
	require.Equal(t, []string{"", "unhealthy", "unhealthy", "unhealthy"}, health(entries(t, "only-passing=true", "web", all...)["consul.web"]))
	require.EqualValues(t, 7, entry.GetEndpoints()[0].GetWeight())

	place := func(i *catalog.Instance) { i.NodeMeta = map[string]string{"zone": "a", "consul-version": "1.14"} }
	known := func(i *catalog.Instance) { i.Locality = catalog.Locality{Region: "eu", Zone: "b"} }
	entry = entries(t, "", "web", at("10.0.0.1", 80, place), at("10.0.0.2", 80, known, meta("mesh-account", "shop")))["consul.web"]
	require.Equal(t, "dc1/a", entry.GetEndpoints()[0].GetLocality())
	require.Equal(t, "1.14", entry.GetEndpoints()[0].GetLabels()["node.consul/consul-version"])
	require.Equal(t, "eu/b", entry.GetEndpoints()[1].GetLocality())
	require.Equal(t, "shop", entry.GetEndpoints()[1].GetServiceAccount())
}

func TestTagsAndMetaAreLabels(t *testing.T) {
	t.Parallel()
	tagged := func(i *catalog.Instance) {
		i.Tags, i.Meta = []string{"v1", "team=shop", "no label!"}, map[string]string{"protocol": "http", "version": "1.2"}
	}
	entry := entries(t, "", "web", at("10.0.0.1", 80, tagged))["consul.web"]
	require.Equal(t, map[string]string{"tag.consul/v1": "true", "team": "shop", "version": "1.2", "protocol": "http"}, entry.GetEndpoints()[0].GetLabels())
}

func TestWhatCannotBeAService(t *testing.T) {
	t.Parallel()
	s, err := read(&url.URL{Host: "127.0.0.1"})
	require.NoError(t, err)
	_, err = s.resources("a.b", map[string][]catalog.Instance{"": {at("10.0.0.1", 80)}}, false)
	require.EqualError(t, err, `the name "a.b" is no label of DNS, so nobody can ask for it, not even in Consul`)
	_, err = s.resources("web", map[string][]catalog.Instance{"": {at("10.0.0.1", 0)}}, false)
	require.ErrorContains(t, err, "no instance has a port")
}

// Only instances with all tags are read.
func TestTagsChoose(t *testing.T) {
	t.Parallel()
	s := &settings{tags: []string{"mesh", "blue"}}
	both, one := catalog.Instance{ID: "both", Tags: []string{"blue", "x", "mesh"}}, catalog.Instance{ID: "one", Tags: []string{"mesh"}}
	require.Equal(t, []catalog.Instance{both}, s.suits([]catalog.Instance{both, one}))
}
