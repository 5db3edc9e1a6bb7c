package mesh

import (
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/gatewayapi"
	"github.com/pgmesh/pgmesh/kinds"
)

// fromRoutes is the VirtualService that routes of the Gateway API come to. Whoever serves a Gateway
// obeys the routes that are attached to it.
func fromRoutes(rules *gatewayapi.Rules, exportDefault []string) *VirtualService {
	vs := &VirtualService{
		Resource: rules.Resource, Spec: specOf[*networking.VirtualService](rules.Resource), routes: rules, visibility: visibility{exportPublic},
	}
	if rules.ForMesh() {
		vs.visibility = exported(nil, exportDefault, vs.Resource.Namespace)
	}
	vs.complete()
	vs.hasSessions, vs.hasAuthorizations = rules.HasSessions(), rules.HasAuthorizations()
	for _, host := range rules.Authorizers() {
		vs.requestsTo = append(vs.requestsTo, host)
		vs.sendsTo = append(vs.sendsTo, destinationHost{host: host})
	}
	return vs
}

// OfGatewayAPI reports whether the rule is what routes of the Gateway API come to. Such a rule
// differs in a few points that VirtualServices cannot say: a prefix of a path ends at a slash, and
// what cannot be sent anywhere is answered with 500.
func (vs *VirtualService) OfGatewayAPI() bool { return vs.routes != nil }

// Source is what people know a rule by: the VirtualService, or the route of the Gateway API. Without
// a rule it is that of the first.
func (vs *VirtualService) Source(rule *networking.HTTPRoute) *kinds.Resource {
	if vs.routes == nil {
		return vs.Resource
	}
	return vs.routes.Source(rule)
}

// Extras are what a route of the Gateway API says of requests beside the rule; nil for nothing.
func (vs *VirtualService) Extras(rule *networking.HTTPRoute) *gatewayapi.Extras {
	if vs.routes == nil {
		return nil
	}
	return vs.routes.Extras(rule)
}

// HasSessions reports whether one of its rules has sessions.
func (vs *VirtualService) HasSessions() bool { return vs.hasSessions }

// HasAuthorizations reports whether services decide about the requests of one of its rules.
func (vs *VirtualService) HasAuthorizations() bool { return vs.hasAuthorizations }

// LeadsToPool reports whether one of its rules leads to an InferencePool.
func (vs *VirtualService) LeadsToPool() bool { return vs.leadsToPool }

// NeedsOfListeners reports whether listeners have to have a filter for what the rule says.
func (vs *VirtualService) NeedsOfListeners() bool {
	return vs.hasSessions || vs.hasAuthorizations || vs.leadsToPool
}

// Reaches reports whether clients in a namespace obey the rule for a service. Routes of the Gateway
// API are obeyed by their own namespace, and by everybody if they are of the service's.
func (vs *VirtualService) Reaches(s *Service, namespace string) bool {
	return vs.routes == nil || vs.Resource.Namespace == namespace || vs.Resource.Namespace == s.Namespace
}

// path is that of a field of the VirtualService; for one that routes come to, all of them.
func (vs *VirtualService) path(field string) string {
	if vs.routes != nil {
		return "spec.hostnames"
	}
	return field
}
