package kubernetes

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/registry/service"
)

// A Service of the mesh's root namespace with the label of a network leads to that network from
// outside the cluster: at the addresses of its load balancer, at its externalIPs, or at the nodes that
// an annotation selects. As elsewhere in the mesh, a labelled ServiceEntry says so. The Service's own
// ServiceEntry has the addresses of Pods, which nobody outside reaches, so it loses the label.

const (
	gatewayPortLabel = "networking.istio.io/gatewayPort"
	// defaultGatewayPort is Istio's.
	defaultGatewayPort = 15443
	// nodeSelectorAnnotation has the labels of the nodes that lead in, as an object of JSON.
	nodeSelectorAnnotation = "traffic.istio.io/nodeSelector"
	// mostGatewayAddresses bounds the addresses of one gateway: clients elsewhere hold a connection to
	// each.
	mostGatewayAddresses = 64
)

// Types of Services that are reached from outside.
const (
	loadBalancer = "LoadBalancer"
	nodePort     = "NodePort"
)

// leads reports whether the Service is a gateway of a network.
func (o *serviceObject) leads() bool {
	if o.Metadata.Namespace != kinds.MeshNamespace || o.Metadata.Labels[networkLabel] == "" {
		return false
	}
	return o.Spec.Type == loadBalancer || o.atNodes() || len(o.Spec.ExternalIPs) > 0
}

// atNodes reports whether a gateway is reached at nodes.
func (o *serviceObject) atNodes() bool {
	return o.Spec.Type == nodePort && o.Metadata.Annotations[nodeSelectorAnnotation] != ""
}

// labels are those of the Service's own ServiceEntry.
func (o *serviceObject) labels() map[string]string {
	if o.Metadata.Namespace != kinds.MeshNamespace || o.Metadata.Labels[networkLabel] == "" {
		return o.Metadata.Labels
	}
	out := maps.Clone(o.Metadata.Labels)
	delete(out, networkLabel)
	return out
}

// gateway is the service that leads to the network which the label of a Service names.
func (c *content) gateway(o *serviceObject) (*service.Service, error) {
	k := o.Metadata.key()
	addresses, err := c.outerAddresses(o)
	if err != nil {
		return nil, err
	}
	port := o.gatewayPort()
	s := &service.Service{
		Name: k.name + ".network", Entry: serviceEntry(k), Namespace: k.namespace, Hosts: []string{k.name + "." + c.name + ".networks.mesh"},
		Ports: []service.Port{{Name: "tls", Number: port, Protocol: "TLS"}}, Labels: o.Metadata.Labels, VisibleIn: []string{"."},
		Created: o.Metadata.CreationTimestamp,
	}
	at := map[string]uint32{"tls": o.outerPort(port)}
	health := c.gatewayHealth(o)
	for _, a := range addresses {
		s.Instances = append(s.Instances, service.Instance{Address: a, Ports: at, Health: health})
	}
	return s, nil
}

// gatewayPort is the port of the Service at which it leads to its network. Discovery tells of a label
// that is no port.
func (o *serviceObject) gatewayPort() uint32 {
	if port, err := strconv.ParseUint(o.Metadata.Labels[gatewayPortLabel], 10, 16); err == nil && port > 0 {
		return uint32(port)
	}
	return defaultGatewayPort
}

// outerPort is where a port of the Service is reached from outside.
func (o *serviceObject) outerPort(port uint32) uint32 {
	if o.atNodes() {
		for i := range o.Spec.Ports {
			if p := &o.Spec.Ports[i]; p.Port == port && isTCP(p.Protocol) && p.NodePort != 0 {
				return p.NodePort
			}
		}
	}
	return port
}

// outerAddresses are where a gateway is reached from outside, sorted.
func (c *content) outerAddresses(o *serviceObject) ([]string, error) {
	out := slices.Clone(o.Spec.ExternalIPs)
	if o.Spec.Type == loadBalancer {
		for _, at := range o.Status.LoadBalancer.Ingress {
			if out = append(out, at.IP); at.IP == "" {
				out = append(out, at.Hostname)
			}
		}
	}
	if o.atNodes() {
		nodes, err := c.nodeAddresses(o)
		if err != nil {
			return nil, err
		}
		out = append(out, nodes...)
	}
	out = slices.DeleteFunc(out, func(a string) bool { return a == "" })
	slices.Sort(out)
	if out = slices.Compact(out); len(out) > mostGatewayAddresses {
		out = out[:mostGatewayAddresses]
	}
	return out, nil
}

// nodeAddresses are the external addresses of the nodes that a gateway selects.
func (c *content) nodeAddresses(o *serviceObject) (out []string, err error) {
	var selector map[string]string
	if err := json.Unmarshal([]byte(o.Metadata.Annotations[nodeSelectorAnnotation]), &selector); err != nil {
		return nil, fmt.Errorf("the annotation %s is no object of labels, such as {\"node\": \"edge\"}: %w", nodeSelectorAnnotation, err)
	}
	for _, n := range c.nodes {
		if n.outer != "" && kinds.LabelsWithin(selector, n.labels) {
			out = append(out, n.outer)
		}
	}
	return out, nil
}

// gatewayHealth is unhealthy if no Pod of the gateway is ready: its load balancer may go on answering.
// Of a Service without EndpointSlices nobody knows more than its addresses.
func (c *content) gatewayHealth(o *serviceObject) service.Health {
	all := c.of[o.Metadata.key()]
	ready := func(e endpoint) bool { return e.health == service.Healthy }
	if len(all) == 0 || slices.ContainsFunc(all, func(s *slice) bool { return slices.ContainsFunc(s.endpoints, ready) }) {
		return service.Healthy
	}
	return service.Unhealthy
}
