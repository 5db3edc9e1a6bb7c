package kubernetes

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/mcp-client/convert/report"
	"github.com/pgmesh/pgmesh/mcp-client/convert/result"
)

// Labels and annotations of Pods and of Nodes.
const (
	networkLabel      = "topology.istio.io/network"
	regionLabel       = "topology.kubernetes.io/region"
	zoneLabel         = "topology.kubernetes.io/zone"
	subzoneLabel      = "topology.istio.io/subzone"
	tlsModeLabel      = "security.istio.io/tlsMode"
	sidecarAnnotation = "sidecar.istio.io/status"
)

// workload is a Pod, or an endpoint of a Service that no Pod is known of. Several Services may choose it.
type workload struct {
	*networking.WorkloadEntry

	at report.Place // the first Service that chooses it
}

// found is an endpoint of a Service.
type found struct {
	name, hostname string // name is that of its Pod, or of the endpoint
	entry          *networking.WorkloadEntry
	ports          map[string]uint32 // where it serves, by the names of the Service's ports
}

// endpoints are those of a Service: what its EndpointSlices have, or the Pods that it chooses if it has none.
func (c *Conversion) endpoints(s *service) []found {
	var out []found
	for _, e := range c.slicesOf(s) {
		out = append(out, c.ofSlice(s, e)...)
	}
	if len(out) > 0 || len(c.slices[s.Metadata.key()]) > 0 || len(s.Spec.Selector) == 0 {
		return out
	}
	for _, k := range slices.SortedFunc(maps.Keys(c.pods), func(a, b key) int { return strings.Compare(a.name, b.name) }) {
		if p := c.pods[k]; k.namespace == s.Metadata.Namespace && p.serves() && chosen(p.Metadata.Labels, s.Spec.Selector) {
			out = append(out, found{name: k.name, entry: c.ofPod(p, endpoint{NodeName: p.Spec.NodeName}, p.Status.PodIP), ports: p.portsFor(s)})
		}
	}
	return out
}

// slicesOf are those of the family that the Service prefers: a Pod with addresses of two families is in a slice of each.
func (c *Conversion) slicesOf(s *service) []*slice {
	all := slices.Clone(c.slices[s.Metadata.key()])
	if len(s.Spec.IPFamilies) > 0 {
		all = slices.DeleteFunc(all, func(e *slice) bool { return e.AddressType != s.Spec.IPFamilies[0] && e.AddressType != "FQDN" })
	}
	slices.SortFunc(all, func(a, b *slice) int { return strings.Compare(a.Metadata.Name, b.Metadata.Name) })
	return all
}

// ofSlice are the endpoints of a slice. Those that end are left out, and those that are not ready yet are not.
func (c *Conversion) ofSlice(s *service, from *slice) []found {
	ports := map[string]uint32{}
	for _, p := range from.Ports {
		ports[p.Name] = p.Port
	}
	var out []found
	for _, e := range from.Endpoints {
		if len(e.Addresses) == 0 || e.Conditions.Terminating {
			continue
		}
		name := e.TargetRef.Name
		if e.TargetRef.Kind != "Pod" || name == "" {
			name = result.Name(s.Metadata.Name + "-" + e.Addresses[0])
		}
		p := c.pods[key{s.Metadata.Namespace, e.TargetRef.Name}]
		if p == nil {
			p = &pod{Metadata: metadata{Labels: s.Spec.Selector}}
		}
		if ready := e.Conditions.Ready; ready != nil && !*ready {
			c.Note(s.at, "its endpoint "+e.Addresses[0]+" is not ready: it gets requests all the same", "delete its WorkloadEntry if it is not to come back")
		}
		out = append(out, found{name, e.Hostname, c.ofPod(p, e, e.Addresses[0]), ports})
	}
	return out
}

// ofPod is a Pod as a workload.
func (c *Conversion) ofPod(p *pod, e endpoint, address string) *networking.WorkloadEntry {
	w := &networking.WorkloadEntry{
		Address: address, Labels: maps.Clone(p.Metadata.Labels), Locality: c.locality(e, p.Metadata.Labels), Network: p.Metadata.Labels[networkLabel],
	}
	if p.member() {
		c.members = true
		w.ServiceAccount = cmp.Or(p.Spec.ServiceAccount, "default")
	}
	return w
}

// member reports whether the Pod has a sidecar that takes mutual TLS.
func (p *pod) member() bool {
	return p.Metadata.Labels[tlsModeLabel] == "istio" || p.Metadata.Annotations[sidecarAnnotation] != ""
}

// serves reports whether a Pod has an address, and has not ended.
func (p *pod) serves() bool {
	return p.Status.PodIP != "" && p.Status.Phase != "Succeeded" && p.Status.Phase != "Failed"
}

// portsFor are where a Pod serves the ports of a Service.
func (p *pod) portsFor(s *service) map[string]uint32 {
	out := map[string]uint32{}
	for _, port := range s.Spec.Ports {
		at := cmp.Or(port.TargetPort.number, port.Port)
		if name := port.TargetPort.name; name != "" {
			at = p.portNamed(name)
		}
		if at != 0 {
			out[port.Name] = at
		}
	}
	return out
}

func (p *pod) portNamed(name string) uint32 {
	for _, c := range p.Spec.Containers {
		for _, port := range c.Ports {
			if port.Name == name {
				return port.Port
			}
		}
	}
	return 0
}

// chosen reports whether labels have all of a selector.
func chosen(labels, selector map[string]string) bool {
	for name, value := range selector {
		if labels[name] != value {
			return false
		}
	}
	return true
}

// locality is that of the Node, or, where that is not known, what a Pod has of it. A zone alone says too little.
func (c *Conversion) locality(e endpoint, labels map[string]string) string {
	var of map[string]string
	if n := c.nodes[e.NodeName]; n != nil {
		of = n.Metadata.Labels
	}
	region, zone := cmp.Or(of[regionLabel], labels[regionLabel]), cmp.Or(of[zoneLabel], labels[zoneLabel], e.Zone)
	switch {
	case region == "" || zone == "":
		return region
	case of[subzoneLabel] == "":
		return region + "/" + zone
	}
	return region + "/" + zone + "/" + of[subzoneLabel]
}

// choose has a workload be one of a Service, with the ports that are not the same for all of it.
func (c *Conversion) choose(s *service, f found, ports map[string]uint32) {
	k := key{s.Metadata.Namespace, f.name}
	w := c.workloads[k]
	if w == nil {
		w = &workload{f.entry, s.at}
		c.workloads[k] = w
	}
	if w.Labels == nil {
		w.Labels = map[string]string{}
	}
	maps.Copy(w.Labels, s.Spec.Selector)
	for name, number := range ports {
		if before, there := w.Ports[name]; there && before != number {
			c.Lose(s.at, "its port "+name+" is another one at "+f.name+" than that of another Service by the same name", "give the ports names of their own")
			continue
		}
		if w.Ports == nil {
			w.Ports = map[string]uint32{}
		}
		w.Ports[name] = number
	}
}

// workload writes a WorkloadEntry.
func (c *Conversion) workload(k key, w *workload) {
	c.AddWith("WorkloadEntry", result.Metadata{Name: k.name, Namespace: k.namespace}, w.WorkloadEntry, w.at)
}
