package mesh

import (
	"net/netip"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/kinds"
)

var resolutions = map[networking.ServiceEntry_Resolution]Resolution{
	networking.ServiceEntry_NONE:            ResolutionNone,
	networking.ServiceEntry_STATIC:          ResolutionStatic,
	networking.ServiceEntry_DNS:             ResolutionDNS,
	networking.ServiceEntry_DNS_ROUND_ROBIN: ResolutionDNSRR,
	networking.ServiceEntry_DYNAMIC_DNS:     ResolutionDynamicDNS,
}

// convertEntry makes the services of a ServiceEntry, one for each host. Selected are the workloads
// that it selects; before are its services until now.
func (u *serviceUpdate) convertEntry(r *kinds.Resource, selected []*workload, before []*Service) []*Service {
	spec := specOf[*networking.ServiceEntry](r)
	template := Service{
		Namespace: r.Namespace, Entry: r, Created: r.CreateTime, claim: r.Claim(),
		Addresses: addresses(spec.GetAddresses()), Resolution: resolutions[spec.GetResolution()],
		External: spec.GetLocation() == networking.ServiceEntry_MESH_EXTERNAL, SubjectAltNames: spec.GetSubjectAltNames(),
		names:      spec.GetSubjectAltNames(),
		visibility: exported(spec.GetExportTo(), u.exportDefault, r.Namespace),
	}
	template.Ports, template.Datagrams = convertPorts(spec.GetPorts())
	if r.Kind == kindPool {
		template.ofPool(u.pools[r.Key()])
	}
	if len(template.Addresses) == 0 {
		return nil // every address was invalid
	}
	workloads := workloadsOf(r, spec, template.ResolvedByDNS(), selected)
	services := make([]*Service, 0, len(spec.GetHosts()))
	for _, host := range spec.GetHosts() {
		s := template
		s.variants = &variants{}
		s.Hostname = strings.ToLower(host)
		s.follow(serviceOf(s.Hostname, before))
		s.Endpoints = s.endpoints(workloads, spec)
		for _, e := range s.Endpoints {
			e.Revoked = u.trust.revokes(e.Namespace, e.ServiceAccount)
		}
		s.Endpoints = s.additional(nil)
		s.Local = s.local()
		services = append(services, &s)
	}
	return services
}

// serviceOf is the service for a host, or nil.
func serviceOf(host string, services []*Service) *Service {
	if i := slices.IndexFunc(services, func(s *Service) bool { return s.Hostname == host }); i >= 0 {
		return services[i]
	}
	return nil
}

// workloadsOf lists the workloads behind an entry. Those with a host name count only if proxies
// resolve names.
func workloadsOf(r *kinds.Resource, spec *networking.ServiceEntry, resolved bool, selected []*workload) []*workload {
	var out []*workload
	if spec.GetWorkloadSelector() == nil {
		for i, e := range spec.GetEndpoints() {
			out = append(out, inline(r.Name, r.Namespace, i, e))
		}
	}
	for _, w := range selected {
		if resolved || !w.named() {
			out = append(out, w)
		}
	}
	return out
}

// endpoints makes an endpoint for each port of each workload. If names are resolved and there is no
// workload, the host itself serves.
func (s *Service) endpoints(workloads []*workload, spec *networking.ServiceEntry) []*Endpoint {
	if s.ResolvedByDNS() && len(workloads) == 0 && spec.GetWorkloadSelector() == nil {
		workloads = []*workload{{name: s.Entry.Name, namespace: s.Namespace, spec: &networking.WorkloadEntry{Address: s.Hostname}}}
	}
	ports := s.servedOn()
	out := make([]*Endpoint, 0, len(workloads)*(len(ports)+len(s.Datagrams)))
	for _, w := range workloads {
		for _, port := range ports {
			out = append(out, w.endpoint(s.Entry, port))
		}
		for _, port := range s.Datagrams {
			out = append(out, w.endpoint(s.Entry, port))
		}
	}
	return out
}

// convertPorts returns the ports with connections, and those of UDP.
func convertPorts(ports []*networking.ServicePort) (connections, datagrams []*Port) {
	connections = make([]*Port, 0, len(ports))
	for _, p := range ports {
		port := &Port{Name: p.GetName(), Number: p.GetNumber(), Protocol: ParseProtocol(p.GetProtocol()), Target: p.GetTargetPort()}
		if port.takesDatagrams() {
			datagrams = append(datagrams, port)
		} else {
			connections = append(connections, port)
		}
	}
	return connections, datagrams
}

// addresses keeps the valid ones. A range with a single address becomes that address.
func addresses(list []string) []string {
	if len(list) == 0 {
		return []string{Unspecified}
	}
	var out []string
	for _, a := range list {
		if IsAddress(a) {
			out = append(out, a)
		} else if p, err := netip.ParsePrefix(a); err == nil {
			if p.IsSingleIP() {
				a = p.Addr().String()
			}
			out = append(out, a)
		}
	}
	return out
}
