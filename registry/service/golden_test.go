package service_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/registry/service"
)

var update = flag.Bool("update", false, "write what services become to testdata/*.out.yaml")

// Each testdata/NAME.in.yaml is a service in the fields of the model, and NAME.out.yaml what it
// becomes.
func TestGolden(t *testing.T) {
	t.Parallel()
	inputs, err := filepath.Glob("testdata/*.in.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, inputs)
	for _, in := range inputs {
		t.Run(strings.TrimSuffix(filepath.Base(in), ".in.yaml"), func(t *testing.T) {
			t.Parallel()
			resources, err := read(t, in).Resources("consul-dc1")
			require.NoError(t, err)
			for _, r := range resources {
				requireSound(t, r)
			}
			got, err := kinds.MarshalYAML(resources...)
			require.NoError(t, err)
			out := strings.TrimSuffix(in, ".in.yaml") + ".out.yaml"
			if *update {
				require.NoError(t, os.WriteFile(out, got, 0o644))
			}
			want, err := os.ReadFile(out)
			require.NoError(t, err, "run the tests with -update to write it")
			require.Equal(t, string(want), string(got))
		})
	}
}

func read(t *testing.T, path string) *service.Service {
	t.Helper()
	file, err := os.Open(path)
	require.NoError(t, err)
	defer file.Close()
	decoder := yaml.NewDecoder(file)
	decoder.KnownFields(true)
	s := &service.Service{}
	require.NoError(t, decoder.Decode(s))
	return s
}

// requireSound requires a resource to keep the rules of its kind.
func requireSound(t *testing.T, r *kinds.Resource) {
	t.Helper()
	spec, err := r.SpecJSON()
	require.NoError(t, err)
	require.Empty(t, r.Kind.Check(spec, kinds.Meta{Name: r.Name, Namespace: r.Namespace, Labels: r.Labels, Annotations: r.Annotations}))
}

func TestServicesThatNobodyCanCallAreRefused(t *testing.T) {
	t.Parallel()
	ports := []service.Port{{Number: 80}}
	for want, s := range map[string]service.Service{
		"has no name": {Hosts: []string{"a.example"}, Ports: ports},
		"has no host": {Name: "a", Ports: ports},
		"has no port": {Name: "a", Hosts: []string{"a.example"}},
	} {
		_, err := s.Resources("consul")
		require.ErrorContains(t, err, want)
	}
}

func TestTheOrderOfInstancesDoesNotMatter(t *testing.T) {
	t.Parallel()
	one, two := service.Instance{Address: "10.0.0.1", Ports: map[string]uint32{"": 8080}}, service.Instance{Address: "10.0.0.1", Ports: map[string]uint32{"": 8081}}
	of := func(instances ...service.Instance) *kinds.Resource {
		s := service.Service{Name: "a", Namespace: "default", Hosts: []string{"a.example"}, Ports: []service.Port{{Number: 80, Protocol: "http"}}, Instances: instances}
		resources, err := s.Resources("consul")
		require.NoError(t, err)
		return resources[0]
	}
	require.True(t, of(one, two).Spec.Equal(of(two, one).Spec))
}

func TestNamesOfResources(t *testing.T) {
	t.Parallel()
	require.Equal(t, "consul.web", service.Name("consul", "web"))
	require.Equal(t, "consul.org.apache.Go", service.Name("consul", "org.apache.Go"))
	for _, in := range []string{"a b", "a/b", "ends-"} {
		requireName(t, service.Name("consul", in))
	}
	require.NotEqual(t, service.Name("consul", "a b"), service.Name("consul", "a/b"))
	long := strings.Repeat("x", 300)
	require.Len(t, service.Name("consul", long), 253)
	require.NotEqual(t, service.Name("consul", long), service.Name("consul", long+"y"))
	requireName(t, service.Name("consul", long))
	requireName(t, service.Name("consul", "日本"))
}

func requireName(t *testing.T, name string) {
	t.Helper()
	kind, _ := kinds.Lookup("networking.istio.io", "ServiceEntry")
	require.Empty(t, kinds.CheckMetadata(&kinds.Resource{Kind: kind, Namespace: "default", Name: name}))
}
