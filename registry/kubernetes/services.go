package kubernetes

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/registry/service"
)

// servicesEntry begins the entries of Services, as kubectl names them.
const servicesEntry = "services"

func serviceEntry(k key) string { return servicesEntry + "/" + k.String() }

// Annotations of a Service that mean something for its ServiceEntry, too.
const (
	distributionAnnotation = "networking.istio.io/traffic-distribution"
	exportToAnnotation     = "networking.istio.io/exportTo"
)

// Labels of Pods and of endpoints.
const (
	hostnameLabel = "kubernetes.io/hostname"
	networkLabel  = "topology.istio.io/network"
	regionLabel   = "topology.kubernetes.io/region" // since 1.35
	zoneLabel     = "topology.kubernetes.io/zone"
	subzoneLabel  = "topology.istio.io/subzone"
)

// What Services say.
const (
	sameNode     = "PreferSameNode" // a distribution that needs to know where endpoints are
	headless     = "None"           // a ClusterIP
	externalName = "ExternalName"   // a type
)

// resources are the ServiceEntries of a Service; none if it has no port that the mesh could serve.
func (c *content) resources(k key) ([]*kinds.Resource, error) {
	o := c.services[k]
	if o == nil {
		return nil, nil
	}
	ports := o.ports()
	if len(ports) == 0 {
		return nil, nil
	}
	whole := c.service(o, ports)
	all := []*service.Service{whole}
	if o.Spec.Type == externalName {
		whole.External, whole.Instances = true, []service.Instance{{Address: o.Spec.ExternalName}}
		for i := range ports {
			ports[i].Target = 0 // it is a name of DNS, which has no ports
		}
		return made(c.name, all)
	}
	named := c.fill(&all, o, ports)
	if o.Spec.ClusterIP == headless {
		all = append(all, single(whole, named)...)
	}
	if c.trustDomain != "" {
		c.identify(all)
	}
	whole.Annotations = selecting(whole.Annotations, o.Spec.Selector)
	if o.leads() {
		gateway, err := c.gateway(o)
		if err != nil {
			return nil, err
		}
		all = append(all, gateway)
	}
	return made(c.name, all)
}

// place is where requests go.
type place struct {
	of      *service.Service
	address string
	port    uint32
}

// fill adds the endpoints of all slices, and returns those that have a name. One that moves from a
// slice to another may be in both for a while: the healthier counts.
func (c *content) fill(all *[]*service.Service, o *serviceObject, ports []service.Port) (named []instance) {
	at := map[place]int{}
	for _, s := range c.slicesOf(o) {
		served := s.served(ports)
		if len(served) == 0 {
			continue
		}
		part := (*all)[0]
		if len(served) < len(ports) {
			part = c.part(all, o, served)
		}
		for _, i := range c.instances(o, s, served) {
			p := place{part, i.Address, i.Ports[served[0].Name]}
			if before, there := at[p]; !there {
				at[p] = len(part.Instances)
				part.Instances = append(part.Instances, i.Instance)
			} else if part.Instances[before].Health > i.Health {
				part.Instances[before] = i.Instance
			}
			if i.hostname != "" {
				named = append(named, i)
			}
		}
	}
	return named
}

func made(registry string, all []*service.Service) ([]*kinds.Resource, error) {
	out := make([]*kinds.Resource, 0, len(all))
	for _, s := range all {
		resources, err := s.Resources(registry)
		if err != nil {
			return nil, err
		}
		out = append(out, resources...)
	}
	return out, nil
}

func (c *content) service(o *serviceObject, ports []service.Port) *service.Service {
	k := o.Metadata.key()
	return &service.Service{
		Name: k.name, Entry: serviceEntry(k), Namespace: k.namespace, Hosts: []string{k.name + "." + k.namespace + ".svc." + c.domain},
		Addresses: c.addressesOf(o), Ports: ports, Labels: o.labels(), Annotations: c.annotations(o),
		VisibleIn: o.visibleIn(), Created: o.Metadata.CreationTimestamp,
	}
}

// part is the service with those of its ports that some slices have: where a port of Pods has a name,
// not all of them need have it.
func (c *content) part(all *[]*service.Service, o *serviceObject, served []service.Port) *service.Service {
	for _, s := range (*all)[1:] {
		if slices.Equal(s.Ports, served) {
			return s
		}
	}
	s := c.service(o, served)
	for _, p := range served {
		s.Name += ":" + p.Name // what no name of Kubernetes has
	}
	*all = append(*all, s)
	return s
}

// slicesOf are those of the family that the service prefers, always in the same order: a Pod with
// addresses of two families is in a slice of each.
func (c *content) slicesOf(o *serviceObject) []*slice {
	found := slices.Clone(c.of[o.Metadata.key()])
	if len(o.Spec.IPFamilies) > 0 {
		found = slices.DeleteFunc(found, func(s *slice) bool { return s.family != o.Spec.IPFamilies[0] && s.family != "FQDN" })
	}
	slices.SortFunc(found, func(a, b *slice) int { return strings.Compare(a.key.name, b.key.name) })
	return found
}

// served are the ports that the endpoints of a slice have.
func (s *slice) served(of []service.Port) []service.Port {
	var out []service.Port
	for _, p := range of {
		if slices.ContainsFunc(s.ports, func(at slicePort) bool { return at.name == p.Name }) {
			out = append(out, p)
		}
	}
	return out
}

// instance is one with the name that it has beside its service's.
type instance struct {
	service.Instance

	hostname string
}

func (c *content) instances(o *serviceObject, s *slice, served []service.Port) []instance {
	at := make(map[string]uint32, len(served))
	for _, p := range s.ports {
		at[p.name] = p.number
	}
	out := make([]instance, 0, len(s.endpoints))
	for i := range s.endpoints {
		if made, known := c.instance(o, s, &s.endpoints[i]); known {
			made.Ports = at
			out = append(out, instance{made, s.endpoints[i].hostname})
		}
	}
	return out
}

// instance makes an endpoint of the mesh. One at a Pod that is not known yet has to wait: nobody knows
// whether it takes mutual TLS.
func (c *content) instance(o *serviceObject, s *slice, e *endpoint) (i service.Instance, known bool) {
	i = service.Instance{Address: e.address, Locality: c.locality(e, nil), Network: c.network, Health: e.health}
	if e.pod == "" || !c.settings.pods {
		return i, true
	}
	p := c.pods[key{s.key.namespace, e.pod}]
	if p == nil || !p.there {
		return i, false
	}
	if i.Labels = p.labels; p.labels[networkLabel] != "" {
		i.Network = p.labels[networkLabel]
	}
	if i.Locality = c.locality(e, p.labels); p.member {
		i.Account = p.account
	}
	if hostname := c.at(e.node).hostname; hostname != "" && o.distribution() == sameNode {
		if i.Labels = maps.Clone(p.labels); i.Labels == nil {
			i.Labels = map[string]string{}
		}
		i.Labels[hostnameLabel] = hostname
	}
	return i, true
}

// locality is that of the Node, or, where that is not known, what a Pod has of it. A zone alone says
// too little.
func (c *content) locality(e *endpoint, labels map[string]string) string {
	n := c.at(e.node)
	region, zone := cmp.Or(n.region, labels[regionLabel]), cmp.Or(n.zone, labels[zoneLabel], e.zone)
	switch {
	case region == "" || zone == "":
		return region
	case n.subzone == "":
		return region + "/" + zone
	default:
		return region + "/" + zone + "/" + n.subzone
	}
}

// single are services of one Pod each, by the names that a StatefulSet gives to its Pods.
func single(of *service.Service, named []instance) []*service.Service {
	out := make([]*service.Service, 0, len(named))
	by := map[string]*service.Service{}
	for _, i := range named {
		one := by[i.hostname]
		if one == nil {
			made := *of
			made.Name, made.Hosts, made.Instances = of.Name+" "+i.hostname, []string{i.hostname + "." + of.Hosts[0]}, nil
			one, by[i.hostname], out = &made, &made, append(out, &made)
		}
		if len(one.Instances) == 0 || one.Instances[0].Health > i.Health {
			one.Instances = []service.Instance{i.Instance}
		}
	}
	return out
}

// identify names the identities of Pods in the trust domain of their cluster.
func (c *content) identify(all []*service.Service) {
	for _, s := range all {
		for i := range s.Instances {
			if account := s.Instances[i].Account; account != "" {
				s.Identities = append(s.Identities, "spiffe://"+c.trustDomain+"/ns/"+s.Namespace+"/sa/"+account)
			}
		}
		slices.Sort(s.Identities)
		s.Identities = slices.Compact(s.Identities)
	}
}

// addressesOf are the virtual addresses of a Service, as far as they mean something to those who ask.
func (c *content) addressesOf(o *serviceObject) []string {
	if !c.addresses {
		return nil
	}
	return o.addresses()
}

// addresses are the virtual ones of a Service.
func (o *serviceObject) addresses() []string {
	all := o.Spec.ClusterIPs
	if len(all) == 0 && o.Spec.ClusterIP != "" {
		all = []string{o.Spec.ClusterIP}
	}
	return slices.DeleteFunc(slices.Clone(all), func(a string) bool { return a == "" || a == headless })
}

func (o *serviceObject) distribution() string {
	if said := o.Metadata.Annotations[distributionAnnotation]; said != "" {
		return said
	}
	return o.Spec.TrafficDistribution
}

// annotations are those of the ServiceEntries of the Service.
func (c *content) annotations(o *serviceObject) map[string]string {
	out := map[string]string{}
	if said := o.distribution(); said != "" {
		out[distributionAnnotation] = said
	}
	if c.set != "" && !o.ofItsCluster() {
		out[kinds.OriginSetAnnotation] = c.set
	}
	return out
}

// ofItsCluster reports whether the Service is one that each cluster has for itself: what Istio leaves
// to each cluster, too.
func (o *serviceObject) ofItsCluster() bool {
	k := o.Metadata.key()
	return k.namespace == "kube-system" || k == key{"default", "kubernetes"}
}

// selecting adds to annotations that there are WorkloadEntries among the endpoints, too.
func selecting(annotations, selector map[string]string) map[string]string {
	if len(selector) == 0 {
		return annotations
	}
	annotations = maps.Clone(annotations)
	annotations[kinds.SelectorAnnotation] = kinds.WrittenLabels(selector)
	return annotations
}

// visibleIn is what the Service says of who may see it.
func (o *serviceObject) visibleIn() []string {
	var out []string
	for name := range strings.SplitSeq(o.Metadata.Annotations[exportToAnnotation], ",") {
		if name = strings.TrimSpace(name); name != "" {
			out = append(out, name)
		}
	}
	return out
}
