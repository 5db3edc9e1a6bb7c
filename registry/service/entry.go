package service

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/kinds"
)

// entryKind is the kind that services become.
var entryKind = func() *kinds.Kind {
	kind, _ := kinds.Lookup("networking.istio.io", "ServiceEntry")
	return kind
}()

// Resources makes the ServiceEntries of the service, in the order of its hosts. Most services need
// one. Where a port is neither HTTP nor TLS, nothing but the host tells requests apart, and each host
// has one of its own.
func (s *Service) Resources(registry string) ([]*kinds.Resource, error) {
	if err := s.complete(); err != nil {
		return nil, err
	}
	if len(s.Hosts) == 1 || s.tellsHosts() {
		return []*kinds.Resource{s.resource(Name(registry, s.Name), s.Hosts)}, nil
	}
	out := make([]*kinds.Resource, len(s.Hosts))
	for i, host := range s.Hosts {
		name := s.Name
		if i > 0 {
			name += " " + host
		}
		out[i] = s.resource(Name(registry, name), []string{host})
	}
	return out, nil
}

func (s *Service) complete() error {
	switch {
	case s.Name == "":
		return errors.New("the service has no name")
	case len(s.Hosts) == 0:
		return fmt.Errorf("the service %s has no host", s.Name)
	case len(s.Ports) == 0:
		return fmt.Errorf("the service %s has no port, so nobody can connect to it", s.Name)
	}
	return nil
}

// hostProtocols are those with which a request says which host it is for.
var hostProtocols = map[string]bool{
	"HTTP": true, "HTTP2": true, "HTTP_PROXY": true, "GRPC": true, "GRPC-WEB": true, "HTTPS": true, "TLS": true,
}

func (s *Service) tellsHosts() bool {
	return !slices.ContainsFunc(s.Ports, func(p Port) bool { return !hostProtocols[p.protocol()] })
}

func (s *Service) resource(name string, hosts []string) *kinds.Resource {
	spec := &networking.ServiceEntry{
		Hosts: hosts, Addresses: s.Addresses, Ports: s.ports(), Location: networking.ServiceEntry_MESH_INTERNAL,
		Resolution: s.resolution(), SubjectAltNames: s.Identities, ExportTo: s.VisibleIn, Endpoints: s.endpoints(),
	}
	if s.External {
		spec.Location = networking.ServiceEntry_MESH_EXTERNAL
	}
	return &kinds.Resource{
		Kind: entryKind, Namespace: s.Namespace, Name: name, Labels: sound(s.Labels), Annotations: s.annotations(),
		CreateTime: s.Created, Spec: kinds.SpecOf(spec),
	}
}

func (s *Service) annotations() map[string]string {
	if s.Entry == "" {
		return s.Annotations
	}
	all := maps.Clone(s.Annotations)
	if all == nil {
		all = map[string]string{}
	}
	all[kinds.OriginEntryAnnotation] = s.Entry
	return all
}

// resolution is DNS if an instance has a name.
func (s *Service) resolution() networking.ServiceEntry_Resolution {
	for i := range s.Instances {
		if s.Instances[i].named() {
			return networking.ServiceEntry_DNS
		}
	}
	return networking.ServiceEntry_STATIC
}

func (s *Service) ports() []*networking.ServicePort {
	out := make([]*networking.ServicePort, len(s.Ports))
	for i, p := range s.Ports {
		out[i] = &networking.ServicePort{Name: p.name(), Number: p.Number, Protocol: p.protocol(), TargetPort: p.Target}
	}
	return out
}

// protocol is that of a ServiceEntry, where "" has it detected.
func (p Port) protocol() string {
	if protocol := strings.ToUpper(cmp.Or(p.Protocol, "TCP")); protocol != Detected {
		return protocol
	}
	return ""
}

// name is unique in a host that several resources have, since it has the number.
func (p Port) name() string {
	return cmp.Or(p.Name, fmt.Sprintf("%s-%d", strings.ToLower(strings.ReplaceAll(cmp.Or(p.protocol(), "port"), "_", "-")), p.Number))
}

// endpoints are sorted, so that the order in which a registry lists instances is no change.
func (s *Service) endpoints() []*networking.WorkloadEntry {
	out := make([]*networking.WorkloadEntry, len(s.Instances))
	var ports map[string]uint32 // of the instance before: most have the same ones
	for i := range s.Instances {
		out[i] = s.endpoint(&s.Instances[i])
		if maps.Equal(out[i].Ports, ports) {
			out[i].Ports = ports
		}
		ports = out[i].Ports
	}
	slices.SortStableFunc(out, func(a, b *networking.WorkloadEntry) int {
		return cmp.Or(cmp.Compare(a.GetAddress(), b.GetAddress()), slices.Compare(portsOf(a), portsOf(b)))
	})
	return out
}

// portsOf are the ports of an endpoint by their names' order.
func portsOf(w *networking.WorkloadEntry) []uint32 {
	out := make([]uint32, 0, len(w.GetPorts()))
	for _, name := range slices.Sorted(maps.Keys(w.GetPorts())) {
		out = append(out, w.GetPorts()[name])
	}
	return out
}

// Endpoint is an instance of a ServiceEntry that is not made of a service. Its ports are those of the
// ServiceEntry.
func Endpoint(i Instance) *networking.WorkloadEntry { return new(Service).endpoint(&i) }

func (s *Service) endpoint(i *Instance) *networking.WorkloadEntry {
	labels := sound(i.Labels)
	if word := i.Health.word(); word != "" {
		healthy := labels
		labels = make(map[string]string, len(healthy)+1)
		maps.Copy(labels, healthy)
		labels[kinds.HealthLabel] = word
	}
	return &networking.WorkloadEntry{
		Address: i.Address, Ports: s.portsAt(i), Weight: i.Weight, Locality: i.Locality, Network: i.Network,
		ServiceAccount: i.Account, Labels: labels,
	}
}

// portsAt are the ports of an instance that are not the targets anyway.
func (s *Service) portsAt(i *Instance) map[string]uint32 {
	var out map[string]uint32
	for _, p := range s.Ports {
		if at := i.Ports[p.Name]; at != 0 && at != cmp.Or(p.Target, p.Number) {
			if out == nil {
				out = map[string]uint32{}
			}
			out[p.name()] = at
		}
	}
	return out
}

func (i *Instance) named() bool {
	if strings.HasPrefix(i.Address, "unix://") {
		return false
	}
	_, err := netip.ParseAddr(i.Address)
	return err != nil
}

func (h Health) word() string {
	switch h {
	case Unhealthy:
		return kinds.HealthUnhealthy
	case Unknown:
		return kinds.HealthUnknown
	default:
		return ""
	}
}

// sound leaves out labels that no resource can have. Labels that are all sound are not copied: a large
// registry has many.
func sound(labels map[string]string) map[string]string {
	bad := func(key, value string) bool { return !kinds.ValidLabel(key, value) }
	for key, value := range labels {
		if bad(key, value) {
			labels = maps.Clone(labels)
			maps.DeleteFunc(labels, bad)
			break
		}
	}
	if len(labels) == 0 {
		return nil
	}
	return labels
}
