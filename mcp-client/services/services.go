// Package services works out from resources what can be called in a mesh, who serves it, and where
// that comes from, as mesh.services and mesh.endpoints do in SQL.
package services

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/kinds"
)

// Service is a host of a ServiceEntry.
type Service struct {
	Host      string `json:"host"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Origin    string `json:"origin,omitempty"` // the registry that has it
	Entry     string `json:"entry,omitempty"`  // what to look for there
	// InEffect is false if the host is that of an earlier origin in the namespace.
	InEffect   bool       `json:"inEffect"`
	Ports      []Port     `json:"ports"`
	Location   string     `json:"location"`
	Resolution string     `json:"resolution"`
	Endpoints  []Endpoint `json:"endpoints"`

	claim kinds.Claim
}

// Port is a port that clients connect to.
type Port struct {
	Name     string `json:"name,omitempty"`
	Number   uint32 `json:"number"`
	Protocol string `json:"protocol,omitempty"`
}

// Endpoint serves a service: the service lists it, or selects a WorkloadEntry.
type Endpoint struct {
	Address  string            `json:"address"`
	Health   string            `json:"health"`
	Ports    map[string]uint32 `json:"ports,omitempty"` // that it says of itself
	Weight   uint32            `json:"weight,omitempty"`
	Locality string            `json:"locality,omitempty"`
	Network  string            `json:"network,omitempty"`
	Account  string            `json:"serviceAccount,omitempty"`
	Labels   map[string]string `json:"labels,omitempty"`
	Workload string            `json:"workload,omitempty"` // the WorkloadEntry
}

var serviceEntry, workloadEntry = kind("ServiceEntry"), kind("WorkloadEntry")

func kind(name string) *kinds.Kind {
	k, known := kinds.Lookup("networking.istio.io", name)
	if !known {
		panic("there is no kind " + name)
	}
	return k
}

// Kinds are the kinds of resources that Of reads.
func Kinds() []*kinds.Kind { return []*kinds.Kind{serviceEntry, workloadEntry} }

// Of returns the services in resources, sorted by host.
func Of(resources []*kinds.Resource) ([]Service, error) {
	workloads, err := workloadsOf(resources)
	if err != nil {
		return nil, err
	}
	all := []Service{}
	for _, r := range resources {
		if r.Kind != serviceEntry {
			continue
		}
		made, err := servicesOf(r, workloads[r.Namespace])
		if err != nil {
			return nil, err
		}
		all = append(all, made...)
	}
	decide(all)
	slices.SortStableFunc(all, func(a, b Service) int {
		return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.claim.Rank, b.claim.Rank), cmp.Compare(a.Name, b.Name))
	})
	return all, nil
}

// decide says which services are in effect: in a namespace, those of the first origin of a host, and
// of the other registries of its set.
func decide(all []Service) {
	type place struct{ namespace, host string }
	first := map[place]kinds.Claim{}
	for _, s := range all {
		at := place{s.Namespace, s.Host}
		if claim, claimed := first[at]; !claimed || s.claim.Rank < claim.Rank {
			first[at] = s.claim
		}
	}
	for i, s := range all {
		all[i].InEffect = s.claim.CountsWith(first[place{s.Namespace, s.Host}])
	}
}

func servicesOf(r *kinds.Resource, workloads []Endpoint) ([]Service, error) {
	var spec networking.ServiceEntry
	if err := read(r, &spec); err != nil {
		return nil, err
	}
	template := Service{
		Namespace: r.Namespace, Name: r.Name, Origin: r.Origin(), Entry: r.Annotations[kinds.OriginEntryAnnotation], claim: r.Claim(),
		Location: spec.GetLocation().String(), Resolution: spec.GetResolution().String(), Ports: []Port{},
	}
	for _, p := range spec.GetPorts() {
		template.Ports = append(template.Ports, Port{p.GetName(), p.GetNumber(), p.GetProtocol()})
	}
	var all []Service
	for _, host := range spec.GetHosts() {
		s := template
		s.Host = strings.ToLower(host)
		s.Endpoints = endpointsOf(s.Host, &spec, selectorOf(r, &spec), workloads)
		all = append(all, s)
	}
	return all, nil
}

// selectorOf returns the labels by which a service selects workloads; nil if it selects none.
func selectorOf(r *kinds.Resource, spec *networking.ServiceEntry) map[string]string {
	if selector := spec.GetWorkloadSelector(); selector != nil {
		return selector.GetLabels()
	}
	return kinds.AnnotatedSelector(r.Annotations)
}

// endpointsOf returns what serves a host: what is listed, and what is selected. If it is neither and
// proxies resolve names, the host itself serves.
func endpointsOf(host string, spec *networking.ServiceEntry, selector map[string]string, workloads []Endpoint) []Endpoint {
	serving := []Endpoint{}
	for _, e := range spec.GetEndpoints() {
		serving = append(serving, endpoint(e))
	}
	resolved := spec.GetResolution() == networking.ServiceEntry_DNS || spec.GetResolution() == networking.ServiceEntry_DNS_ROUND_ROBIN
	if len(serving) == 0 && selector == nil && spec.GetWorkloadSelector() == nil && resolved {
		serving = append(serving, Endpoint{Address: host, Health: kinds.HealthHealthy})
	}
	for _, w := range workloads {
		if len(selector) > 0 && kinds.LabelsWithin(selector, w.Labels) {
			serving = append(serving, w)
		}
	}
	return serving
}

func endpoint(e *networking.WorkloadEntry) Endpoint {
	labels := maps.Clone(e.GetLabels())
	delete(labels, kinds.HealthLabel)
	return Endpoint{
		Address: e.GetAddress(), Health: kinds.HealthOf(e.GetLabels()[kinds.HealthLabel]), Ports: e.GetPorts(), Weight: max(e.GetWeight(), 1),
		Locality: e.GetLocality(), Network: e.GetNetwork(), Account: e.GetServiceAccount(), Labels: labels,
	}
}

// workloadsOf returns the WorkloadEntries of each namespace.
func workloadsOf(resources []*kinds.Resource) (map[string][]Endpoint, error) {
	all := map[string][]Endpoint{}
	for _, r := range resources {
		if r.Kind != workloadEntry {
			continue
		}
		var spec networking.WorkloadEntry
		if err := read(r, &spec); err != nil {
			return nil, err
		}
		e := endpoint(&spec)
		e.Workload, e.Health = r.Name, kinds.HealthOf(r.Annotations[kinds.HealthAnnotation])
		if e.Labels == nil {
			e.Labels = map[string]string{}
		}
		maps.Copy(e.Labels, r.Labels)
		all[r.Namespace] = append(all[r.Namespace], e)
	}
	return all, nil
}

// read reads the spec of a resource.
func read(r *kinds.Resource, into json.Unmarshaler) error {
	text, err := r.SpecJSON()
	if err == nil {
		err = into.UnmarshalJSON(text)
	}
	if err != nil {
		return fmt.Errorf("read the spec of %s: %w", r.Key(), err)
	}
	return nil
}

// Healthy is how many endpoints are healthy.
func (s Service) Healthy() (n int) {
	for _, e := range s.Endpoints {
		if e.Health == kinds.HealthHealthy {
			n++
		}
	}
	return n
}

// PortList lists the ports in words.
func (s Service) PortList() string {
	var list []string
	for _, p := range s.Ports {
		list = append(list, strings.TrimSuffix(fmt.Sprintf("%d/%s", p.Number, p.Protocol), "/"))
	}
	return strings.Join(list, ",")
}

// PortList lists the ports that the endpoint says of itself.
func (e Endpoint) PortList() string {
	return pairs(e.Ports, func(n uint32) string { return strconv.FormatUint(uint64(n), 10) })
}

// LabelList lists the labels.
func (e Endpoint) LabelList() string {
	return pairs(e.Labels, func(v string) string { return v })
}

func pairs[V any](of map[string]V, text func(V) string) string {
	var list []string
	for _, k := range slices.Sorted(maps.Keys(of)) {
		list = append(list, k+"="+text(of[k]))
	}
	return strings.Join(list, ",")
}
