package kubetest

import (
	"cmp"
	"maps"
)

// Service is a Service of one port.
type Service struct {
	Namespace, Name string
	Port            uint32
	// More is added to its spec, and Annotations to its metadata.
	More        Object
	Annotations map[string]string
}

// ServicePath is where a Service is.
func ServicePath(namespace, name string) string {
	return "/api/v1/namespaces/" + namespace + "/services/" + name
}

// ApplyService makes a Service so.
func (c *Cluster) ApplyService(s Service) {
	c.t.Helper()
	c.Apply(ServicePath(s.Namespace, s.Name), s.object())
}

// Creation creates it.
func (s Service) Creation() Creation {
	return Creation{"/api/v1/namespaces/" + s.Namespace + "/services", s.object()}
}

func (s Service) object() Object {
	spec := Object{"ports": []Object{{"name": "http", "port": s.Port}}}
	maps.Copy(spec, s.More)
	return Object{"apiVersion": "v1", "kind": "Service", "metadata": Object{"name": s.Name, "annotations": s.Annotations}, "spec": spec}
}

// Slice is an EndpointSlice of a Service, with one port.
type Slice struct {
	Namespace, Name, Service string
	PortName                 string // http, if there is none
	Port                     uint32
	Ports                    []Object // in place of the one of PortName and Port
	Endpoints                []Endpoint
}

// Endpoint is one of a slice.
type Endpoint struct {
	Address, Pod, Node, Hostname, Zone string
	NotReady, Serving, Terminating     bool
}

// SlicePath is where an EndpointSlice is.
func SlicePath(namespace, name string) string {
	return "/apis/discovery.k8s.io/v1/namespaces/" + namespace + "/endpointslices/" + name
}

// ApplySlice makes an EndpointSlice so.
func (c *Cluster) ApplySlice(s Slice) {
	c.t.Helper()
	c.Apply(SlicePath(s.Namespace, s.Name), s.object())
}

// Creation creates it.
func (s Slice) Creation() Creation {
	return Creation{"/apis/discovery.k8s.io/v1/namespaces/" + s.Namespace + "/endpointslices", s.object()}
}

func (s Slice) object() Object {
	endpoints := make([]Object, len(s.Endpoints))
	for i, e := range s.Endpoints {
		endpoints[i] = e.object(s.Namespace)
	}
	ports := s.Ports
	if ports == nil {
		ports = []Object{{"name": cmp.Or(s.PortName, "http"), "port": s.Port}}
	}
	return Object{
		"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
		"metadata": Object{"name": s.Name, "labels": Object{"kubernetes.io/service-name": s.Service}},
		"ports":    ports, "endpoints": endpoints,
	}
}

func (e Endpoint) object(namespace string) Object {
	o := Object{
		"addresses":  []string{e.Address},
		"conditions": Object{"ready": !e.NotReady, "serving": e.Serving || !e.NotReady, "terminating": e.Terminating},
	}
	for name, value := range map[string]string{"nodeName": e.Node, "hostname": e.Hostname, "zone": e.Zone} {
		if value != "" {
			o[name] = value
		}
	}
	if e.Pod != "" {
		o["targetRef"] = Object{"kind": "Pod", "name": e.Pod, "namespace": namespace}
	}
	return o
}

// Pod is a Pod that nobody runs.
type Pod struct {
	Namespace, Name, Node, Account string
	Labels                         map[string]string
}

// PodPath is where a Pod is.
func PodPath(namespace, name string) string {
	return "/api/v1/namespaces/" + namespace + "/pods/" + name
}

// ApplyPod makes a Pod so.
func (c *Cluster) ApplyPod(p Pod) {
	c.t.Helper()
	c.Apply(PodPath(p.Namespace, p.Name), p.object())
}

// Creation creates it.
func (p Pod) Creation() Creation {
	return Creation{"/api/v1/namespaces/" + p.Namespace + "/pods", p.object()}
}

func (p Pod) object() Object {
	return Object{
		"apiVersion": "v1", "kind": "Pod", "metadata": Object{"name": p.Name, "labels": p.Labels},
		"spec": Object{"nodeName": p.Node, "serviceAccountName": p.Account, "containers": []Object{{"name": "app", "image": "app"}}},
	}
}

// NodePath is where a Node is.
func NodePath(name string) string { return "/api/v1/nodes/" + name }

// ApplyNode makes a Node so, at a place.
func (c *Cluster) ApplyNode(name, region, zone string) {
	c.t.Helper()
	c.Apply(NodePath(name), Object{
		"apiVersion": "v1", "kind": "Node",
		"metadata": Object{"name": name, "labels": Object{
			"topology.kubernetes.io/region": region, "topology.kubernetes.io/zone": zone, "kubernetes.io/hostname": name,
		}},
	})
}
