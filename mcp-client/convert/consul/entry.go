package consul

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/convert/fields"
	"github.com/pgmesh/pgmesh/mcp-client/convert/result"
)

// drawnPort is that of a service whose instances have many, or none that is known.
const drawnPort = 80

// mostPorts is how many ports a service may have because its instances listen on different ones.
const mostPorts = 4

// protocols are those that Consul writes, and what they are here.
var protocols = map[string]string{
	"http": "HTTP", "http2": "HTTP2", "grpc": "GRPC", "https": "HTTPS", "tls": "TLS", "tcp": "TCP", "mongo": "MONGO", "mysql": "MYSQL", "redis": "REDIS",
}

// protocolOf is what a service speaks: what its defaults say, what its router or its splitter needs, what all instances
// agree on, or what all services share.
func (c *Conversion) protocolOf(s *service) string {
	said := strings.ToLower(s.defaults.Text("Protocol"))
	if said == "" && (s.router != nil || s.splitter != nil) {
		said = cmp.Or(strings.ToLower(c.protocol), "http")
		if protocols[said] == "TCP" {
			said = "http"
		}
	}
	return cmp.Or(protocols[cmp.Or(said, s.agreed(), strings.ToLower(c.protocol))], "TCP")
}

// agreed is the protocol that the meta of all instances names.
func (s *service) agreed() string {
	said := ""
	for _, i := range s.instances {
		protocol := strings.ToLower(i.meta[metaProtocol])
		if protocol == "" || said != "" && said != protocol {
			return ""
		}
		said = protocol
	}
	return said
}

// ports are where clients reach a service: wherever an instance listens, as in the registry.
func (c *Conversion) ports(s *service) []*networking.ServicePort {
	var numbers []uint32
	for _, i := range s.instances {
		if n := i.serves(); n > 0 && n <= 65535 {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	if numbers = slices.Compact(numbers); len(numbers) > mostPorts || len(numbers) == 0 {
		numbers = []uint32{drawnPort}
	}
	protocol := c.protocolOf(s)
	var out []*networking.ServicePort
	for _, n := range numbers {
		out = append(out, &networking.ServicePort{Name: strings.ToLower(protocol) + "-" + strconv.FormatUint(uint64(n), 10), Number: n, Protocol: protocol})
	}
	return out
}

// entry writes the ServiceEntry of a service, and a WorkloadEntry for each instance.
func (c *Conversion) entry(s *service) {
	if c.outside(s) {
		return
	}
	if len(s.instances) == 0 {
		c.Note(s.at, fmt.Sprintf("no instance of it was read: its port is taken to be %d", drawnPort), "convert what /v1/catalog/service/"+s.name+" answers with it, if it has instances")
	}
	entry := &networking.ServiceEntry{
		Hosts: []string{s.host()}, Ports: c.ports(s), Location: networking.ServiceEntry_MESH_INTERNAL, Resolution: networking.ServiceEntry_STATIC,
		WorkloadSelector: &networking.WorkloadSelector{Labels: map[string]string{appLabel: s.label()}},
	}
	for i := range s.instances {
		if s.instances[i].address != "" && c.workload(s, &s.instances[i], entry.GetPorts()) {
			entry.Resolution = networking.ServiceEntry_DNS
		}
	}
	c.AddWith("ServiceEntry", result.Metadata{Name: result.Name(s.name), Namespace: s.namespace}, entry, s.at)
}

// workload writes the WorkloadEntry of an instance, and reports whether its address is a name.
func (c *Conversion) workload(s *service, i *instance, ports []*networking.ServicePort) (named bool) {
	w := &networking.WorkloadEntry{Address: i.address, Labels: i.labels(s), Locality: i.locality(), ServiceAccount: i.meta[metaAccount]}
	for _, p := range ports {
		if i.port != p.GetNumber() && i.port > 0 {
			if w.Ports == nil {
				w.Ports = map[string]uint32{}
			}
			w.Ports[p.GetName()] = i.port
		}
	}
	if i.weight > 1 {
		w.Weight = i.weight
	}
	if i.status == "critical" {
		w.Labels[kinds.HealthLabel] = kinds.HealthUnhealthy
		c.Note(i.at, "the instance "+i.id+" is critical: it gets no requests while others are healthy", "delete the label "+kinds.HealthLabel+" of its WorkloadEntry when it is back")
	}
	if kept := i.meta[appLabel]; kept != "" && kept != s.label() {
		c.Lose(i.at, "its meta "+appLabel+": "+kept+" gives way to the name of the service, by which policies select it", "call the meta something else")
	}
	c.AddWith("WorkloadEntry", result.Metadata{Name: result.Name(i.id), Namespace: s.namespace}, w, i.at)
	_, err := netip.ParseAddr(i.address)
	return err != nil
}

// outside writes the ServiceEntry of a service that is reached through a terminating gateway, by its own addresses.
func (c *Conversion) outside(s *service) bool {
	d := s.defaults.Object("Destination")
	if d == nil {
		return false
	}
	port, _ := d.Whole("Port")
	protocol := c.protocolOf(s)
	entry := &networking.ServiceEntry{
		Hosts: []string{s.host()}, Location: networking.ServiceEntry_MESH_EXTERNAL, Resolution: networking.ServiceEntry_DNS,
		Ports: []*networking.ServicePort{{Name: fmt.Sprintf("%s-%d", strings.ToLower(protocol), port), Number: port, Protocol: protocol}},
	}
	for _, address := range append(d.Texts("Addresses"), one(d, "Address")...) {
		entry.Endpoints = append(entry.Endpoints, &networking.WorkloadEntry{Address: address})
	}
	c.AddWith("ServiceEntry", result.Metadata{Name: result.Name(s.name), Namespace: s.namespace}, entry, s.at)
	return true
}

func one(o *fields.Object, name string) []string {
	if text := o.Text(name); text != "" {
		return []string{text}
	}
	return nil
}
