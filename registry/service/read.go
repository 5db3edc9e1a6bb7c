package service

import (
	"cmp"
	"maps"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/kinds"
)

// Of reads a ServiceEntry of the mesh as a service, called as its resource is. Workloads are the
// WorkloadEntries of its namespace; those that it selects are its instances.
func Of(entry *kinds.Resource, workloads []*kinds.Resource) *Service {
	spec, is := entry.Spec.Message().(*networking.ServiceEntry)
	if !is {
		return nil
	}
	s := &Service{
		Name: entry.Name, Entry: entry.Kind.Name + " " + entry.Key().FullName(), Namespace: entry.Namespace,
		Hosts: spec.GetHosts(), Addresses: spec.GetAddresses(), Labels: entry.Labels, Annotations: entry.Annotations,
		External: spec.GetLocation() == networking.ServiceEntry_MESH_EXTERNAL, Identities: spec.GetSubjectAltNames(),
		VisibleIn: spec.GetExportTo(), Created: entry.CreateTime,
	}
	for _, p := range spec.GetPorts() {
		s.Ports = append(s.Ports, Port{p.GetName(), p.GetNumber(), p.GetProtocol(), p.GetTargetPort()})
	}
	if selector := spec.GetWorkloadSelector(); selector != nil {
		s.Instances = s.selected(selector.GetLabels(), workloads)
		return s
	}
	if selector := kinds.AnnotatedSelector(entry.Annotations); selector != nil {
		s.Instances = s.selected(selector, workloads)
	}
	for _, e := range spec.GetEndpoints() {
		labels := maps.Clone(e.GetLabels())
		delete(labels, kinds.HealthLabel)
		s.Instances = append(s.Instances, s.read(e, labels, kinds.KeepsAway(e.GetLabels()[kinds.HealthLabel])))
	}
	if len(s.Instances) == 0 && resolves(spec) {
		for _, host := range s.Hosts {
			s.Instances = append(s.Instances, s.read(&networking.WorkloadEntry{Address: host}, nil, false))
		}
	}
	return s
}

// Selects reports whether WorkloadEntries are among the instances of a ServiceEntry.
func Selects(entry *kinds.Resource) bool {
	spec, is := entry.Spec.Message().(*networking.ServiceEntry)
	return is && (spec.GetWorkloadSelector() != nil || kinds.AnnotatedSelector(entry.Annotations) != nil)
}

// resolves reports whether the hosts themselves are what serves.
func resolves(spec *networking.ServiceEntry) bool {
	r := spec.GetResolution()
	return r == networking.ServiceEntry_DNS || r == networking.ServiceEntry_DNS_ROUND_ROBIN
}

// selected are the workloads with these labels, in their order.
func (s *Service) selected(selector map[string]string, workloads []*kinds.Resource) (out []Instance) {
	for _, w := range workloads {
		spec, is := w.Spec.Message().(*networking.WorkloadEntry)
		if !is || w.Namespace != s.Namespace {
			continue
		}
		labels := map[string]string{}
		maps.Copy(labels, spec.GetLabels())
		maps.Copy(labels, w.Labels)
		if kinds.LabelsWithin(selector, labels) {
			out = append(out, s.read(spec, labels, kinds.KeepsAway(w.Health())))
		}
	}
	return out
}

// read reads a workload. Each port of the service has one of the instance.
func (s *Service) read(w *networking.WorkloadEntry, labels map[string]string, unhealthy bool) Instance {
	i := Instance{
		Address: w.GetAddress(), Ports: make(map[string]uint32, len(s.Ports)), Weight: w.GetWeight(), Locality: w.GetLocality(),
		Network: w.GetNetwork(), Account: w.GetServiceAccount(), Labels: labels,
	}
	for _, p := range s.Ports {
		i.Ports[p.Name] = cmp.Or(w.GetPorts()[p.Name], p.Target, p.Number)
	}
	if unhealthy {
		i.Health = Unhealthy
	}
	return i
}
