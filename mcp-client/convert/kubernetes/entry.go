package kubernetes

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/internal/portprotocol"
	"github.com/pgmesh/pgmesh/mcp-client/convert/result"
)

// domain is what the names of a cluster end with.
const domain = "cluster.local"

// Annotations of a Service that mean something for its ServiceEntry, too.
const (
	distributionAnnotation = "networking.istio.io/traffic-distribution"
	exportToAnnotation     = "networking.istio.io/exportTo"
)

// service writes the ServiceEntry of a Service, and remembers the workloads that it chooses.
func (c *Conversion) service(s *service) {
	c.tellUnsaid(s)
	entry := &networking.ServiceEntry{
		Hosts: []string{s.host()}, Addresses: s.addresses(), Ports: c.ports(s), ExportTo: s.visibleIn(),
		Location: networking.ServiceEntry_MESH_INTERNAL, Resolution: networking.ServiceEntry_STATIC,
	}
	switch {
	case len(entry.Ports) == 0:
		c.Lose(s.at, "it has no port, so nobody can connect to it: it is left out", "write a ServiceEntry with the ports that clients ask for")
		return
	case s.Spec.Type == "ExternalName":
		entry.Location, entry.Resolution = networking.ServiceEntry_MESH_EXTERNAL, networking.ServiceEntry_DNS
		entry.Endpoints = []*networking.WorkloadEntry{{Address: s.Spec.ExternalName}}
	default:
		c.fill(s, entry)
	}
	c.AddWith("ServiceEntry", s.metadata(), entry, s.at)
}

// fill adds the endpoints of a Service. Those that it chooses by labels become workloads of their own.
func (c *Conversion) fill(s *service, entry *networking.ServiceEntry) {
	all := c.endpoints(s)
	if len(all) == 0 {
		c.Note(s.at, "no endpoint of it was read", "read endpointslices or pods with it, if it has any")
	}
	targets(entry, all)
	if len(s.Spec.Selector) > 0 {
		entry.WorkloadSelector = &networking.WorkloadSelector{Labels: s.Spec.Selector}
	}
	for _, f := range all {
		ports := own(entry, f)
		if len(s.Spec.Selector) > 0 {
			c.choose(s, f, ports)
		} else {
			f.entry.Ports = ports
			entry.Endpoints = append(entry.Endpoints, f.entry)
		}
		if f.hostname != "" && s.Spec.ClusterIP == "None" {
			c.single(s, entry, f, ports)
		}
	}
	if slices.ContainsFunc(all, func(f found) bool { _, err := netip.ParseAddr(f.entry.GetAddress()); return err != nil }) {
		entry.Resolution = networking.ServiceEntry_DNS
	}
}

// single writes the name that a StatefulSet gives to one of its Pods.
func (c *Conversion) single(s *service, of *networking.ServiceEntry, f found, ports map[string]uint32) {
	at := proto.CloneOf(f.entry)
	at.Ports = ports
	m := s.metadata()
	m.Name += "-" + f.hostname
	c.AddWith("ServiceEntry", m, &networking.ServiceEntry{
		Hosts: []string{f.hostname + "." + s.host()}, Ports: of.GetPorts(), ExportTo: of.GetExportTo(), Location: of.GetLocation(),
		Resolution: networking.ServiceEntry_STATIC, Endpoints: []*networking.WorkloadEntry{at},
	}, s.at)
}

func (s *service) host() string {
	return s.Metadata.Name + "." + s.Metadata.Namespace + ".svc." + domain
}

// metadata is that of the ServiceEntry.
func (s *service) metadata() result.Metadata {
	m := result.Metadata{Name: s.Metadata.Name, Namespace: s.Metadata.Namespace, Labels: s.Metadata.Labels}
	if said := cmp.Or(s.Metadata.Annotations[distributionAnnotation], s.Spec.TrafficDistribution); said != "" {
		m.Annotations = map[string]string{distributionAnnotation: said}
	}
	return m
}

// addresses are the virtual ones.
func (s *service) addresses() []string {
	all := s.Spec.ClusterIPs
	if len(all) == 0 {
		all = []string{s.Spec.ClusterIP}
	}
	return slices.DeleteFunc(slices.Clone(all), func(a string) bool { return a == "" || a == "None" })
}

func (s *service) visibleIn() (out []string) {
	for name := range strings.SplitSeq(s.Metadata.Annotations[exportToAnnotation], ",") {
		if name = strings.TrimSpace(name); name != "" {
			out = append(out, name)
		}
	}
	return out
}

// ports are those that the mesh serves.
func (c *Conversion) ports(s *service) (out []*networking.ServicePort) {
	for i, p := range s.Spec.Ports {
		if p.Protocol == "SCTP" {
			c.Lose(s.at.In("spec.ports[%d]", i), "SCTP is not carried: the port is left out", "let clients connect to it without the mesh")
			continue
		}
		protocol := portprotocol.Of(p.AppProtocol, p.Name, p.Port)
		if p.Protocol == "UDP" {
			protocol = "UDP"
		}
		port := &networking.ServicePort{Name: p.named(protocol), Number: p.Port, Protocol: protocol}
		if at := p.TargetPort.number; at != p.Port && s.Spec.Type != "ExternalName" {
			port.TargetPort = at
		}
		out = append(out, port)
	}
	return out
}

// named is the port's name, or one that says what it is.
func (p *servicePort) named(protocol string) string {
	return cmp.Or(p.Name, strings.ToLower(cmp.Or(protocol, "port"))+fmt.Sprintf("-%d", p.Port))
}

// targets has a port whose target has a name in Pods be at the number that all of them have.
func targets(entry *networking.ServiceEntry, all []found) {
	for _, p := range entry.GetPorts() {
		if p.GetTargetPort() != 0 || len(all) == 0 {
			continue
		}
		first := at(p, all[0])
		if !slices.ContainsFunc(all, func(f found) bool { return at(p, f) != first }) && first != p.GetNumber() {
			p.TargetPort = first
		}
	}
}

// at is where an endpoint serves a port; 0 if it is not known.
func at(p *networking.ServicePort, f found) uint32 {
	if number, there := f.ports[p.GetName()]; there {
		return number
	}
	return f.ports[""]
}

// own are the ports of an endpoint that are not the targets anyway.
func own(entry *networking.ServiceEntry, f found) map[string]uint32 {
	var out map[string]uint32
	for _, p := range entry.GetPorts() {
		if number := at(p, f); number != 0 && number != cmp.Or(p.GetTargetPort(), p.GetNumber()) {
			if out == nil {
				out = map[string]uint32{}
			}
			out[p.GetName()] = number
		}
	}
	return out
}

// tellUnsaid tells what a Service says beyond the mesh.
func (c *Conversion) tellUnsaid(s *service) {
	if s.Spec.Type == "NodePort" || s.Spec.Type == "LoadBalancer" {
		c.Note(s.at.In("spec.type"), s.Spec.Type+": clients outside of the mesh do not reach it by this", "write a Gateway for them: docs/gateway-api.md")
	}
	if len(s.Spec.ExternalIPs) > 0 {
		c.Lose(s.at.In("spec.externalIPs"), "they are left out", "write a Gateway for clients outside of the mesh: docs/gateway-api.md")
	}
	if s.Spec.InternalTrafficPolicy == "Local" {
		c.Lose(s.at.In("spec.internalTrafficPolicy"), "machines are no Nodes: all endpoints are asked", "")
	}
	if s.Spec.SessionAffinity == "ClientIP" {
		c.Lose(s.at.In("spec.sessionAffinity"), "requests of one client go to any endpoint", "write a DestinationRule with consistentHash.useSourceIp")
	}
}
