package service_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/registry/service"
)

// What is made of a service is read as that service.
func TestAServiceIsReadAsItWasWritten(t *testing.T) {
	t.Parallel()
	s := &service.Service{
		Name: "web", Namespace: "shop", Hosts: []string{"web.example.com"}, External: true,
		Ports: []service.Port{{Name: "http", Number: 80, Protocol: "HTTP", Target: 8080}, {Name: "admin", Number: 9000, Protocol: "TCP"}},
		Instances: []service.Instance{
			{Address: "10.0.0.1", Ports: map[string]uint32{"http": 8080, "admin": 9001}, Weight: 3, Locality: "eu/a", Account: "web", Labels: map[string]string{"version": "v1"}},
			{Address: "10.0.0.2", Ports: map[string]uint32{"http": 8081, "admin": 9000}, Health: service.Unhealthy},
		},
	}
	made, err := s.Resources("r")
	require.NoError(t, err)
	require.Len(t, made, 1)
	read := service.Of(made[0], nil)
	require.Equal(t, "r.web", read.Name)
	require.Equal(t, "ServiceEntry shop/r.web", read.Entry)
	require.Empty(t, read.Instances[1].Labels, "health is no label")
	read.Name, read.Entry, read.Instances[1].Labels = s.Name, "", nil
	require.Equal(t, s, read)
}

func TestInstancesAreThoseThatAServiceSelects(t *testing.T) {
	t.Parallel()
	kind, _ := kinds.Lookup("networking.istio.io", "WorkloadEntry")
	workload := func(namespace, address string, labels, annotations map[string]string) *kinds.Resource {
		return &kinds.Resource{
			Kind: kind, Namespace: namespace, Name: address, Labels: labels, Annotations: annotations,
			Spec: kinds.SpecOf(&networking.WorkloadEntry{Address: address, Labels: map[string]string{"app": "web", "of": "spec"}}),
		}
	}
	entryKind, _ := kinds.Lookup("networking.istio.io", "ServiceEntry")
	entry := &kinds.Resource{Kind: entryKind, Namespace: "shop", Name: "web", Spec: kinds.SpecOf(&networking.ServiceEntry{
		Hosts: []string{"web.example.com"}, Ports: []*networking.ServicePort{{Name: "http", Number: 80, TargetPort: 8080}},
		WorkloadSelector: &networking.WorkloadSelector{Labels: map[string]string{"app": "web"}},
	})}
	require.True(t, service.Selects(entry))
	read := service.Of(entry, []*kinds.Resource{
		workload("shop", "10.0.0.1", map[string]string{"of": "metadata"}, nil),
		workload("shop", "10.0.0.2", map[string]string{"app": "other"}, nil),
		workload("other", "10.0.0.3", nil, nil),
		workload("shop", "10.0.0.4", nil, map[string]string{kinds.HealthAnnotation: "unhealthy: it burns"}),
	})
	require.Len(t, read.Instances, 2)
	require.Equal(t, service.Instance{Address: "10.0.0.1", Ports: map[string]uint32{"http": 8080}, Labels: map[string]string{"app": "web", "of": "metadata"}}, read.Instances[0])
	require.Equal(t, service.Unhealthy, read.Instances[1].Health)
}

// Where names are resolved and there is no endpoint, the host serves.
func TestAHostServesByItself(t *testing.T) {
	t.Parallel()
	kind, _ := kinds.Lookup("networking.istio.io", "ServiceEntry")
	spec := &networking.ServiceEntry{Hosts: []string{"a.example"}, Ports: []*networking.ServicePort{{Name: "http", Number: 80}}, Resolution: networking.ServiceEntry_DNS}
	entry := &kinds.Resource{Kind: kind, Namespace: "shop", Name: "a", Spec: kinds.SpecOf(spec)}
	require.Equal(t, "a.example", service.Of(entry, nil).Instances[0].Address)
	entry.Spec = kinds.SpecOf(&networking.ServiceEntry{Hosts: spec.GetHosts(), Ports: spec.GetPorts()})
	require.Empty(t, service.Of(entry, nil).Instances)
}
