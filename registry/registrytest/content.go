package registrytest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/kinds"
)

// content is what a registry has: instances by service and id.
type content map[string]map[string]Instance

func (c content) register(s Subject, service string, i Instance) {
	s.Register(service, i)
	if c[service] == nil {
		c[service] = map[string]Instance{}
	}
	c[service][i.ID] = i
}

func (c content) deregister(s Subject, service, id string) {
	s.Deregister(service, id)
	delete(c[service], id)
	if len(c[service]) == 0 {
		delete(c, service)
	}
}

func (i Instance) weighing(s Subject, weight uint32) Instance {
	if s.Weights {
		i.Weight = weight
	}
	return i
}

func (i Instance) failing(s Subject) Instance {
	i.Unhealthy = s.Health
	return i
}

// served are the endpoints of a host, as text, sorted.
type served map[string][]string

// asServed is what the mesh has to have of the content.
func (c content) asServed(s Subject) served {
	out := served{}
	for service, instances := range c {
		host := s.Host(service)
		for i := range maps.Values(instances) {
			out[host] = append(out[host], endpointText(i.Address, i.Port, i.Weight, i.Unhealthy))
		}
		slices.Sort(out[host])
	}
	return out
}

func endpointText(address string, port, weight uint32, unhealthy bool) string {
	return fmt.Sprintf("%s:%d weight %d unhealthy %t", address, port, weight, unhealthy)
}

// servedBy is what resources say.
func servedBy(all map[kinds.Key]*kinds.Resource) served {
	out := served{}
	for _, r := range all {
		entry, isEntry := r.Spec.Message().(*networking.ServiceEntry)
		if !isEntry {
			continue
		}
		for _, host := range entry.GetHosts() {
			for _, e := range entry.GetEndpoints() {
				out[host] = append(out[host], textOf(entry, e))
			}
			slices.Sort(out[host])
		}
	}
	return out
}

// textOf is an endpoint at the first port of its service.
func textOf(entry *networking.ServiceEntry, e *networking.WorkloadEntry) string {
	port := entry.GetPorts()[0]
	at := cmp.Or(e.GetPorts()[port.GetName()], port.GetTargetPort(), port.GetNumber())
	return endpointText(e.GetAddress(), at, max(e.GetWeight(), 1), e.GetLabels()[kinds.HealthLabel] == kinds.HealthUnhealthy)
}
