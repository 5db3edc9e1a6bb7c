package kuma

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/convert/fields"
	"github.com/pgmesh/pgmesh/mcp-client/convert/report"
	"github.com/pgmesh/pgmesh/mcp-client/convert/result"
)

// dataplaneLabel has the name of the Dataplane of a workload.
const dataplaneLabel = "kuma.io/dataplane"

// service is what clients ask for.
type service struct {
	name     string
	entry    *networking.ServiceEntry
	inbounds []*inbound
	rules    *rules
	at       report.Place
}

// inbound is where a Dataplane serves.
type inbound struct {
	name, address string
	port          uint32
	labels        map[string]string
	sick          bool
	at            report.Place
}

// protocols are those of Kuma's tag, and what they are here.
var protocols = map[string]string{"http": "HTTP", "http2": "HTTP2", "grpc": "GRPC", "tls": "TLS", "kafka": "TCP", "tcp": "TCP", "": "TCP"}

func protocol(said string) string { return cmp.Or(protocols[strings.ToLower(said)], "TCP") }

// servicePort is the port on which Kuma's DNS has all services that are known by their tag.
const servicePort = 80

// dataplanes reads all Dataplanes, and makes a service of each tag that they have.
func (c *Conversion) dataplanes() {
	for _, r := range slices.Backward(c.of("Dataplane")) {
		n := r.spec.Object("networking")
		r.spec.Skip("name", "type", "mesh", "labels", "probes", "metrics")
		n.Skip("transparentProxying", "admin", "advertisedAddress")
		address := n.Text("address")
		if gateway := n.Object("gateway"); gateway != nil {
			c.Lose(gateway.At, "a gateway is not converted", "start a machine with --role gateway: docs/gateways.md")
			gateway.Skip("tags", "type")
		}
		for _, o := range n.Objects("outbound") {
			to, port := cmp.Or(o.Map("tags")[serviceTag], o.Object("backendRef").Text("name")), o.Text("port")
			c.Note(o.At, "the application asks 127.0.0.1:"+port+" for "+to, "have it ask for "+c.hostOf(to)+" in the mesh")
			o.Skip("address", "backendRef")
			o.Object("backendRef").Skip("kind", "port", "labels")
		}
		inbounds := n.Objects("inbound")
		for i, o := range inbounds {
			in := c.inbound(r, o, address)
			if len(inbounds) > 1 {
				in.name += "-" + strconv.Itoa(i+1)
			}
			c.serve(in)
		}
	}
}

func (c *Conversion) inbound(r *resource, o *fields.Object, address string) *inbound {
	in := &inbound{name: result.Name(r.name), address: cmp.Or(o.Text("address"), address), labels: map[string]string{}, at: r.at}
	maps.Copy(in.labels, r.labels)
	maps.Copy(in.labels, o.Map("tags"))
	in.labels[dataplaneLabel] = r.name
	in.port, _ = o.Whole("port")
	if port, there := o.Whole("servicePort"); there && port > 0 {
		in.port = port
	}
	ready, said := o.Object("health").Bool("ready")
	in.sick = said && !ready || o.Text("state") == "NotReady"
	if said := o.Text("protocol"); said != "" && in.labels[protocolTag] == "" {
		in.labels[protocolTag] = said
	}
	maps.DeleteFunc(in.labels, func(key, value string) bool { return !kinds.ValidLabel(key, value) })
	o.Skip("serviceProbe", "serviceAddress", "name")
	return in
}

// serve has an inbound be one of its service, and writes its WorkloadEntry.
func (c *Conversion) serve(in *inbound) {
	w := &networking.WorkloadEntry{Address: in.address, Labels: in.labels, Locality: in.labels["kuma.io/zone"]}
	if in.sick {
		w.Labels[kinds.HealthLabel] = kinds.HealthUnhealthy
		c.Note(in.at, "it is not ready: it gets no requests while others do", "delete the label "+kinds.HealthLabel+" of its WorkloadEntry when it is back")
	}
	if name := in.labels[serviceTag]; name != "" {
		s := c.named(name, in.at)
		s.inbounds = append(s.inbounds, in)
		if p := s.entry.GetPorts()[0]; in.labels[protocolTag] != "" {
			p.Protocol = protocol(in.labels[protocolTag])
			p.Name = strings.ToLower(p.GetProtocol())
		}
		if in.port != servicePort {
			w.Ports = map[string]uint32{s.entry.GetPorts()[0].GetName(): in.port}
		}
		if _, err := netip.ParseAddr(in.address); err != nil {
			s.entry.Resolution = networking.ServiceEntry_DNS
		}
	}
	c.Add("WorkloadEntry", c.namespace, in.name, w, in.at)
}

// named returns the service of a tag, which is known from now on.
func (c *Conversion) named(name string, at report.Place) *service {
	if c.services[name] == nil {
		c.services[name] = &service{name: name, at: at, entry: &networking.ServiceEntry{
			Hosts: []string{tagHost(name)}, Location: networking.ServiceEntry_MESH_INTERNAL, Resolution: networking.ServiceEntry_STATIC,
			Ports:            []*networking.ServicePort{{Name: "tcp", Number: servicePort, Protocol: "TCP"}},
			WorkloadSelector: &networking.WorkloadSelector{Labels: map[string]string{serviceTag: name}},
		}}
	}
	return c.services[name]
}

// tagHost is the name in Kuma's DNS. It has a form without underscores, which names of hosts may not have.
func tagHost(name string) string { return strings.ReplaceAll(name, "_", ".") + ".mesh" }

func (c *Conversion) hostOf(name string) string {
	if s := c.services[name]; s != nil {
		return s.host()
	}
	return tagHost(name)
}

func (s *service) host() string { return s.entry.GetHosts()[0] }

func (s *service) http() bool {
	return slices.ContainsFunc(s.entry.GetPorts(), func(p *networking.ServicePort) bool {
		return slices.Contains([]string{"HTTP", "HTTP2", "GRPC"}, p.GetProtocol())
	})
}

func (c *Conversion) entry(s *service) {
	if s.entry.GetLocation() == networking.ServiceEntry_MESH_INTERNAL && len(s.inbounds) == 0 && s.entry.GetWorkloadSelector().GetLabels()[serviceTag] == s.name {
		c.Note(s.at, "no Dataplane of the service "+s.name+" was read", "convert what kumactl get dataplanes -o yaml prints with it")
	}
	c.Add("ServiceEntry", c.namespace, result.Name(s.name), s.entry, s.at)
}

// namedServices reads the services that have resources of their own.
func (c *Conversion) namedServices() {
	for _, r := range c.of("MeshService") {
		c.meshService(r)
	}
	for _, r := range c.of("ExternalService") {
		c.externalService(r)
	}
	for _, r := range c.of("MeshExternalService") {
		c.meshExternalService(r)
	}
}

// meshService reads a MeshService. It takes the place of the tag of the same name, since policies name it.
func (c *Conversion) meshService(r *resource) {
	selector := r.spec.Object("selector")
	labels := selector.Map("dataplaneTags")
	if labels == nil {
		labels = selector.Object("dataplaneLabels").Map("matchLabels")
	}
	if name := selector.Object("dataplaneRef").Text("name"); name != "" {
		labels = map[string]string{dataplaneLabel: name}
	}
	entry := &networking.ServiceEntry{
		Hosts: hostsOf(r, "svc"), Location: networking.ServiceEntry_MESH_INTERNAL, Resolution: networking.ServiceEntry_STATIC,
		WorkloadSelector: &networking.WorkloadSelector{Labels: labels},
	}
	for i, o := range r.spec.Objects("ports") {
		number, _ := o.Whole("port")
		p := &networking.ServicePort{Number: number, Protocol: protocol(o.Text("appProtocol"))}
		if target, there := o.Whole("targetPort"); there && target != number {
			p.TargetPort = target
		}
		p.Name = cmp.Or(o.Text("name"), fmt.Sprintf("%s-%d", strings.ToLower(p.GetProtocol()), i+1))
		entry.Ports = append(entry.Ports, p)
	}
	r.spec.Skip("identities", "state", "type", "name", "mesh", "labels")
	r.status.Skip("vips", "tls", "hostnameGenerators", "dataplaneProxies")
	if len(labels) == 0 || len(entry.GetPorts()) == 0 {
		c.Lose(r.at, "it has no labels that choose, or no ports: it is left out", "write a ServiceEntry")
		return
	}
	s := &service{name: r.name, entry: entry, at: r.at}
	for _, other := range c.services {
		for _, in := range other.inbounds {
			if kinds.LabelsWithin(labels, in.labels) {
				s.inbounds = append(s.inbounds, in)
			}
		}
	}
	if tag := c.services[r.name]; tag != nil {
		tag.name += ".mesh"
		c.services[tag.name] = tag
		c.Note(r.at, "policies are about the name of the MeshService: clients that ask "+tag.host()+" go without", "have them ask "+s.host())
	}
	c.services[r.name] = s
}

// hostsOf are the names that Kuma says that it has given, or that it gives.
func hostsOf(r *resource, zone string) (out []string) {
	for _, a := range r.status.Objects("addresses") {
		if host := a.Text("hostname"); host != "" {
			out = append(out, host)
		}
	}
	if len(out) == 0 {
		out = append(out, r.name+"."+zone+".mesh.local")
	}
	return out
}

// externalService reads an ExternalService, which is asked by its tag.
func (c *Conversion) externalService(r *resource) {
	n, tags := r.spec.Object("networking"), r.spec.Map("tags")
	r.spec.Skip("name", "type", "mesh", "labels")
	address, port, found := strings.Cut(n.Text("address"), ":")
	number, err := strconv.ParseUint(port, 10, 16)
	if tags[serviceTag] == "" || !found || err != nil {
		c.Lose(r.at, "it has no tag "+serviceTag+" or no address with a port: it is left out", "write a ServiceEntry")
		return
	}
	s := c.outside(tags[serviceTag], tagHost(tags[serviceTag]), servicePort, tags[protocolTag], r.at)
	s.entry.Endpoints = []*networking.WorkloadEntry{{Address: address, Ports: map[string]uint32{s.entry.GetPorts()[0].GetName(): uint32(number)}}}
	if tls := n.Object("tls"); tls.Yes("enabled") {
		c.originate(s, cmp.Or(tls.Text("serverName"), address), tls.Yes("allowRenegotiation"), tls)
	}
}

// meshExternalService reads a MeshExternalService.
func (c *Conversion) meshExternalService(r *resource) {
	match := r.spec.Object("match")
	match.Skip("type")
	r.spec.Skip("type", "name", "mesh", "labels")
	r.status.Skip("vip", "hostnameGenerators")
	number, _ := match.Whole("port")
	s := c.outside(r.name, hostsOf(r, "extsvc")[0], number, match.Text("protocol"), r.at)
	for _, e := range r.spec.Objects("endpoints") {
		port, _ := e.Whole("port")
		s.entry.Endpoints = append(s.entry.Endpoints, &networking.WorkloadEntry{Address: e.Text("address"), Ports: map[string]uint32{s.entry.GetPorts()[0].GetName(): port}})
	}
	tls := r.spec.Object("tls")
	verification := tls.Object("verification")
	if tls.Yes("enabled") && len(s.entry.GetEndpoints()) > 0 {
		mode := verification.Text("mode")
		c.originate(s, cmp.Or(verification.Text("serverName"), s.entry.GetEndpoints()[0].GetAddress()), false, tls)
		s.policy().Tls.InsecureSkipVerify = yes(mode == "SkipAll")
	}
}

// outside is a service that is no member of the mesh.
func (c *Conversion) outside(name, host string, port uint32, said string, at report.Place) *service {
	p := protocol(said)
	s := &service{name: name, at: at, entry: &networking.ServiceEntry{
		Hosts: []string{host}, Location: networking.ServiceEntry_MESH_EXTERNAL, Resolution: networking.ServiceEntry_DNS,
		Ports: []*networking.ServicePort{{Name: strings.ToLower(p), Number: port, Protocol: p}},
	}}
	c.services[name] = s
	return s
}

// originate has proxies speak TLS to a service.
func (c *Conversion) originate(s *service, name string, renegotiates bool, o *fields.Object) {
	if renegotiates {
		c.Lose(o.At.In("allowRenegotiation"), "TLS is not negotiated again", "")
	}
	s.policy().Tls = &networking.ClientTLSSettings{Mode: networking.ClientTLSSettings_SIMPLE, Sni: name, SubjectAltNames: []string{name}}
}
