package gatewayapi

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/kinds"
)

// Pool is an InferencePool: workloads, and Pods if it is a cluster's, of which an endpoint picker chooses one for each request.
type Pool struct {
	Resource *kinds.Resource
	// Problems are those that it has wherever it is used.
	Problems []Problem
	// Ports are those on which each workload serves: each is an endpoint.
	Ports []uint32
	// Picker chooses the endpoints.
	Picker Picker
	// PickerEntry is the ServiceEntry that it names as the picker's service, if it names one.
	PickerEntry kinds.Key

	entry *kinds.Resource
	wrong fault // with the reference to its picker
}

// Picker is the service that chooses the endpoint of each request to a pool.
type Picker struct {
	Host string // "" if there is no such
	Port uint32
	// FailOpen has the proxy choose if the picker cannot be asked. Otherwise the request fails.
	FailOpen bool
}

// PoolHost is the host of the service that a pool is in the mesh. No resource can have such a host:
// people may not write "~".
func PoolHost(name, namespace string) string { return name + "." + namespace + poolDomain }

const poolDomain = ".inference~pool"

// IsPoolHost reports whether a host is that of a pool.
func IsPoolHost(host string) bool {
	return strings.HasSuffix(host, poolDomain)
}

// poolPort is the name of the port of a pool's service. No WorkloadEntry can have a port of this name.
const poolPort = "http~"

// reasonNoPicker is that of a pool whose picker cannot be asked.
const reasonNoPicker = "InvalidExtensionRef"

// ReadPool reads a pool, given the hosts of ServiceEntries. One that cannot be read has no ports.
func ReadPool(r *kinds.Resource, hosts func(kinds.Key) []string) *Pool {
	spec, err := specOf[poolSpec](r)
	p := &Pool{Resource: r}
	if err != nil {
		p.Problems = unreadable(r, err)
		return p
	}
	for _, port := range spec.TargetPorts {
		p.Ports = withOne(p.Ports, port.Number)
	}
	p.readPicker(spec, hosts)
	p.entry = p.asEntry(spec)
	return p
}

// readPicker reads which service the picker is.
func (p *Pool) readPicker(spec poolSpec, hosts func(kinds.Key) []string) {
	in := spec.EndpointPickerRef
	in.Namespace = nil // a picker is of the pool's own namespace
	to := in.resolved("", "Service", p.Resource.Namespace)
	p.Picker = Picker{Host: to.serviceHost(), Port: in.Port.Number, FailOpen: in.FailureMode == "FailOpen"}
	switch {
	case to.is(groupIstio, KindServiceEntry.Name):
		p.PickerEntry = to.entryKey()
		if all := hosts(p.PickerEntry); len(all) > 0 {
			p.Picker.Host = all[0]
		} else {
			p.wrong = fault{reasonNoPicker, fmt.Sprintf("there is no %s", p.PickerEntry)}
		}
	case p.Picker.Host == "" || IsPoolHost(p.Picker.Host):
		p.Picker.Host = ""
		p.wrong = fault{reasonNoPicker, fmt.Sprintf("a %s of %q can be no endpoint picker: name a Service, a ServiceEntry or a Hostname", to.kind, to.group)}
	}
	if p.wrong == (fault{}) && p.Picker.Port == 0 {
		p.wrong = fault{reasonNoPicker, "which port of the endpoint picker is to be asked is not said: write it into spec.endpointPickerRef.port"}
	}
}

// Key is that of the pool.
func (p *Pool) Key() kinds.Key { return p.Resource.Key() }

// Host is that of the service that the pool is.
func (p *Pool) Host() string { return PoolHost(p.Resource.Name, p.Resource.Namespace) }

// Entry is the pool as a ServiceEntry with a port for each of its own; nil if it has none, and for no pool.
func (p *Pool) Entry() *kinds.Resource {
	if p == nil {
		return nil
	}
	return p.entry
}

func (p *Pool) asEntry(in poolSpec) *kinds.Resource {
	if len(p.Ports) == 0 || len(in.Selector.MatchLabels) == 0 {
		return nil
	}
	protocol := "HTTP"
	if in.AppProtocol == "kubernetes.io/h2c" {
		protocol = "HTTP2"
	}
	spec := &networking.ServiceEntry{Hosts: []string{p.Host()}, Location: networking.ServiceEntry_MESH_INTERNAL, Resolution: networking.ServiceEntry_STATIC}
	for _, number := range p.Ports {
		spec.Ports = append(spec.Ports, &networking.ServicePort{Number: number, Name: poolPort, Protocol: protocol, TargetPort: number})
	}
	out := *p.Resource
	out.Labels, out.Annotations = nil, p.choosing(spec, in.Selector.MatchLabels)
	out.Spec = kinds.SpecOf(spec)
	return &out
}

// choosing has a ServiceEntry select workloads: beside the Pods that the registry of the pool says it has, if
// there are some. It returns its annotations, which do not list those Pods: a service whose endpoints alone
// change has the same ones.
func (p *Pool) choosing(spec *networking.ServiceEntry, labels map[string]string) map[string]string {
	annotations := maps.Clone(p.Resource.Annotations)
	delete(annotations, kinds.OriginEndpointsAnnotation)
	if spec.Endpoints = p.Resource.Endpoints(); len(spec.GetEndpoints()) == 0 {
		spec.WorkloadSelector = &networking.WorkloadSelector{Labels: labels}
		return annotations
	}
	annotations[kinds.SelectorAnnotation] = kinds.WrittenLabels(labels)
	return annotations
}

// Same reports whether two pools have the same ports and the same picker; both may be nil.
func (p *Pool) Same(other *Pool) bool {
	if p == nil || other == nil {
		return p == other
	}
	return p.Picker == other.Picker && slices.Equal(p.Ports, other.Ports)
}

// PickerFault is why a picker cannot be asked that a pool names: what service it names in vain.
func (p *Pool) PickerFault(known, takesCalls bool) string {
	switch {
	case p.wrong != (fault{}):
		return p.wrong.message
	case !known:
		return fmt.Sprintf("there is no service %s with the port %d", p.Picker.Host, p.Picker.Port)
	case !takesCalls:
		return fmt.Sprintf("port %d of %s is not declared as GRPC or HTTP2, so that nobody can be asked there", p.Picker.Port, p.Picker.Host)
	}
	return ""
}

// mostParents is how many parents the API has room for in the status of a pool.
const mostParents = 32

// Status is how the pool stands at Gateways, of which each has routes to it.
func (p *Pool) Status(gateways map[kinds.Key]bool, pickerFault string) *Status {
	out, resolved := &Status{}, holds(condResolved)
	if pickerFault != "" {
		resolved = fails(condResolved, reasonNoPicker, pickerFault)
	}
	for g := range gateways {
		out.Parents = append(out.Parents, ParentStatus{ParentRef: referenceTo(g), ControllerName: Controller, Conditions: []Condition{holds(condAccepted), resolved}})
	}
	slices.SortFunc(out.Parents, func(a, b ParentStatus) int {
		return cmp.Or(strings.Compare(*a.ParentRef.Namespace, *b.ParentRef.Namespace), strings.Compare(a.ParentRef.Name, b.ParentRef.Name))
	})
	out.Parents = out.Parents[:min(len(out.Parents), mostParents)]
	return out
}

// AllProblems are those of the pool, of its picker, and of what it selects.
func (p *Pool) AllProblems(pickerFault string, selectsSome bool) []Problem {
	out := slices.Clone(p.Problems)
	if len(out) > 0 {
		return out
	}
	if pickerFault != "" {
		fate := "requests to the pool fail, as failureMode FailClose says"
		if p.Picker.FailOpen {
			fate = "requests to the pool go to any of its endpoints, as failureMode FailOpen says"
		}
		out = append(out, Problem{p.Key(), "spec.endpointPickerRef", pickerFault + ": " + fate})
	}
	if !selectsSome {
		out = append(out, Problem{p.Key(), "spec.selector", fmt.Sprintf(
			"no workload of the namespace %s has these labels: requests to the pool fail. Give a WorkloadEntry the labels, or a Pod if the pool is a cluster's, or correct the selector", p.Resource.Namespace)})
	}
	return out
}
