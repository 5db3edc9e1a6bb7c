package mesh

import (
	"fmt"
	"slices"
	"strings"

	selection "istio.io/api/type/v1beta1"

	"github.com/pgmesh/pgmesh/kinds"
)

// gatewayNameLabel marks the proxies of a Gateway of the Gateway API, to which resources can be
// attached.
const gatewayNameLabel = "gateway.networking.k8s.io/gateway-name"

// attachment says which proxies of its namespace a resource is for: by their labels, or by the
// Gateways of the Gateway API that they serve.
type attachment struct {
	of       *kinds.Resource
	selector *selection.WorkloadSelector
	targets  []*selection.PolicyTargetReference
}

// targetsOrOne returns the list, or the one that older resources have in its place.
func targetsOrOne(list []*selection.PolicyTargetReference, one *selection.PolicyTargetReference) []*selection.PolicyTargetReference {
	if one != nil && len(list) == 0 {
		return []*selection.PolicyTargetReference{one}
	}
	return list
}

// general reports whether the resource is for all proxies of its namespace.
func (a attachment) general() bool {
	return len(a.selector.GetMatchLabels()) == 0 && len(a.targets) == 0
}

// isFor reports whether the resource is for a proxy of its namespace. Of what resources can be
// attached to, only Gateways of the Gateway API are proxies.
func (a attachment) isFor(p *Proxy) bool {
	if len(a.targets) == 0 {
		return kinds.LabelsWithin(a.selector.GetMatchLabels(), p.Labels)
	}
	name, isGateway := p.Labels[gatewayNameLabel]
	return isGateway && a.of.Namespace == p.Namespace && slices.ContainsFunc(a.targets, func(t *selection.PolicyTargetReference) bool {
		return t.GetGroup() == "gateway.networking.k8s.io" && t.GetKind() == "Gateway" && t.GetName() == name &&
			(t.GetNamespace() == "" || t.GetNamespace() == p.Namespace)
	})
}

// encode names the resource and says which proxies it is for: equal strings, equal proxies.
func (a attachment) encode() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s/%s %v", a.of.Namespace, a.of.Name, a.selector.GetMatchLabels()) // in the order of the labels' names
	for _, target := range a.targets {
		fmt.Fprintf(&b, " %s/%s %s/%s", target.GetGroup(), target.GetKind(), target.GetNamespace(), target.GetName())
	}
	return b.String()
}
