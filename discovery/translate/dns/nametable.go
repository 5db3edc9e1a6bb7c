package dns

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/binding"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
	ndsv1 "github.com/pgmesh/pgmesh/proto/istio/networking/nds/v1"
)

// NameTable has the names that the resolver beside a sidecar answers for: the hosts in its scope,
// with their addresses. A host without addresses is left out, unless its connections go where the
// client sends them: then it has those of its endpoints. A router has no resolver beside it, and no
// table.
func NameTable(v view.View) *ndsv1.NameTable {
	if !v.Sidecar() {
		return nil
	}
	out := &ndsv1.NameTable{Table: map[string]*ndsv1.NameTable_NameInfo{}}
	for _, egress := range v.Scope.Egress {
		for _, service := range egress.Services {
			addresses := resolvable(v, egress, service)
			if len(addresses) == 0 {
				continue
			}
			info := out.Table[service.Hostname]
			if info == nil {
				info = nameInfo(service.Hostname)
				out.Table[service.Hostname] = info
			}
			for _, a := range addresses {
				if !slices.Contains(info.Ips, a) { // two egress listeners may have the service
					info.Ips = append(info.Ips, a)
				}
			}
			info.Ports = withPorts(withPorts(info.Ports, service.Ports), service.Datagrams)
		}
	}
	return out
}

// withPorts adds the ports of another service for the same host.
func withPorts(known []*ndsv1.NameTable_Port, more []*mesh.Port) []*ndsv1.NameTable_Port {
	for _, p := range more {
		udp := p.Protocol == mesh.ProtocolUDP
		if !slices.ContainsFunc(known, func(k *ndsv1.NameTable_Port) bool { return k.Number == p.Number && k.Name == p.Name && k.Udp == udp }) {
			known = append(known, &ndsv1.NameTable_Port{Number: p.Number, Name: p.Name, Udp: udp})
		}
	}
	return known
}

// resolvable are the addresses that a service's name stands for. A range of addresses is none.
func resolvable(v view.View, e *mesh.Egress, s *mesh.Service) []string {
	if v.Proxy.DNSCapture && len(s.Allocated) > 0 && !v.Intercepted() {
		return listenedFor(v, e, s)
	}
	var out []string
	for _, a := range s.AddressesFor(v.Proxy) {
		if a == mesh.Unspecified {
			return endpointAddresses(s)
		}
		if mesh.IsAddress(a) {
			out = append(out, a)
		}
	}
	return out
}

// listenedFor are the proxy's own addresses, for a service that has only an allocated one which no
// redirection catches. They stand for the service only if requests name their host on all of its
// ports: other connections would reach somebody else.
func listenedFor(v view.View, e *mesh.Egress, s *mesh.Service) []string {
	b := binding.OfEgress(v, e)
	if e.Port != nil || !b.Explicit || len(s.Datagrams) > 0 || slices.ContainsFunc(s.Ports, func(p *mesh.Port) bool {
		return !p.Protocol.IsHTTP() || p.Protocol == mesh.ProtocolHTTPProxy || !binding.CanBind(v, b, p)
	}) {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(b.Binds), func(bind string) bool { return !mesh.IsAddress(bind) })
}

// endpointAddresses are those of the endpoints, if connections to the service go where the client
// sends them.
func endpointAddresses(s *mesh.Service) []string {
	if s.Resolution != mesh.ResolutionNone {
		return nil
	}
	var out []string
	for _, e := range s.Endpoints {
		if _, err := netip.ParseAddr(e.Address); err == nil && !e.Unix && !slices.Contains(out, e.Address) {
			out = append(out, e.Address)
		}
	}
	return out
}

// nameInfo notes the parts of a host that Kubernetes would have given a service:
// name.namespace.svc.domain.
func nameInfo(host string) *ndsv1.NameTable_NameInfo {
	info := &ndsv1.NameTable_NameInfo{Registry: "External"}
	if parts := strings.SplitN(host, ".", 4); len(parts) == 4 && parts[2] == "svc" {
		info.Shortname, info.Namespace = parts[0], parts[1]
	}
	return info
}
