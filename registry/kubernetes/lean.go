package kubernetes

import "github.com/pgmesh/pgmesh/registry/service"

// What is kept of objects.

func leanService(o *serviceObject) *serviceObject {
	if !o.leads() {
		o.Spec.ExternalIPs, o.Status.LoadBalancer.Ingress = nil, nil
	}
	o.Spec.Selector = sharedAll(o.Spec.Selector)
	all := o.Metadata.Annotations
	o.Metadata.Annotations = nil
	for _, name := range []string{distributionAnnotation, exportToAnnotation, nodeSelectorAnnotation} {
		if said := all[name]; said != "" {
			if o.Metadata.Annotations == nil {
				o.Metadata.Annotations = map[string]string{}
			}
			o.Metadata.Annotations[name] = said
		}
	}
	return o
}

func leanSlice(o *sliceObject) *slice {
	out := &slice{key: o.Metadata.key(), service: key{o.Metadata.Namespace, o.Metadata.Labels.Service}, family: shared(o.AddressType)}
	for _, p := range o.Ports {
		if isServed(p.Protocol) && p.Port != 0 {
			out.ports = append(out.ports, slicePort{shared(p.Name), p.Port})
		}
	}
	out.endpoints = make([]endpoint, 0, len(o.Endpoints))
	for i := range o.Endpoints {
		if e := &o.Endpoints[i]; len(e.Addresses) > 0 && !e.over() {
			out.endpoints = append(out.endpoints, e.lean())
		}
	}
	return out
}

// over reports whether the endpoint serves nobody any more: it ends, and is not even finishing what
// it does.
func (o *endpointObject) over() bool {
	return o.Conditions.Terminating && !o.ready() && (o.Conditions.Serving == nil || !*o.Conditions.Serving)
}

// ready reports whether new requests may come. What nobody has said is taken for ready, as Kubernetes
// wants it.
func (o *endpointObject) ready() bool { return o.Conditions.Ready == nil || *o.Conditions.Ready }

// lean keeps the first address: the others are not for use.
func (o *endpointObject) lean() endpoint {
	e := endpoint{address: o.Addresses[0], hostname: o.Hostname, node: shared(o.NodeName), zone: shared(o.Zone)}
	if o.TargetRef.Kind == "Pod" {
		e.pod = o.TargetRef.Name
	}
	if !o.ready() {
		e.health = service.Unhealthy
	}
	return e
}

// tlsModeLabel says on a Pod whether it takes mutual TLS: what injects sidecars sets it.
const tlsModeLabel = "security.istio.io/tlsMode"

func leanPod(o *podObject) *pod {
	p := &pod{
		there: true, labels: sharedAll(o.Metadata.Labels), account: shared(o.Spec.ServiceAccountName),
		member: o.Metadata.Annotations.Sidecar != "" || o.Metadata.Labels[tlsModeLabel] == "istio",
		node:   shared(o.Spec.NodeName),
	}
	if !o.over() {
		p.address = o.Status.PodIP
	}
	if !o.ready() {
		p.health = service.Unhealthy
	}
	return p
}

// over reports whether the Pod has ended, or is about to.
func (o *podObject) over() bool {
	return o.Status.Phase == "Succeeded" || o.Status.Phase == "Failed" || o.Metadata.DeletionTimestamp != ""
}

func (o *podObject) ready() bool {
	for _, c := range o.Status.Conditions {
		if c.Type == "Ready" {
			return c.Status == "True"
		}
	}
	return false
}

func leanNode(o *nodeObject) *node {
	l := o.Metadata.Labels
	n := &node{region: shared(l[regionLabel]), zone: shared(l[zoneLabel]), subzone: shared(l[subzoneLabel]), hostname: shared(l[hostnameLabel])}
	for _, a := range o.Status.Addresses {
		if a.Type == "ExternalIP" && n.outer == "" {
			n.outer, n.labels = a.Address, sharedAll(l)
		}
	}
	return n
}
