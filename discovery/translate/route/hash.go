package route

import (
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/upstream"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
)

type consistentHash = networking.LoadBalancerSettings_ConsistentHashLB

// hashPolicy is what of a request decides its endpoint, or nil.
func hashPolicy(hash *consistentHash) *routev3.RouteAction_HashPolicy {
	switch key := hash.GetHashKey().(type) {
	case *networking.LoadBalancerSettings_ConsistentHashLB_HttpHeaderName:
		return &routev3.RouteAction_HashPolicy{PolicySpecifier: &routev3.RouteAction_HashPolicy_Header_{
			Header: &routev3.RouteAction_HashPolicy_Header{HeaderName: key.HttpHeaderName},
		}}
	case *networking.LoadBalancerSettings_ConsistentHashLB_HttpCookie:
		return &routev3.RouteAction_HashPolicy{PolicySpecifier: &routev3.RouteAction_HashPolicy_Cookie_{
			Cookie: hashCookie(key.HttpCookie),
		}}
	case *networking.LoadBalancerSettings_ConsistentHashLB_UseSourceIp:
		return &routev3.RouteAction_HashPolicy{PolicySpecifier: &routev3.RouteAction_HashPolicy_ConnectionProperties_{
			ConnectionProperties: &routev3.RouteAction_HashPolicy_ConnectionProperties{SourceIp: key.UseSourceIp},
		}}
	case *networking.LoadBalancerSettings_ConsistentHashLB_HttpQueryParameterName:
		return &routev3.RouteAction_HashPolicy{PolicySpecifier: &routev3.RouteAction_HashPolicy_QueryParameter_{
			QueryParameter: &routev3.RouteAction_HashPolicy_QueryParameter{Name: key.HttpQueryParameterName},
		}}
	default:
		return nil
	}
}

func hashCookie(in *networking.LoadBalancerSettings_ConsistentHashLB_HTTPCookie) *routev3.RouteAction_HashPolicy_Cookie {
	out := &routev3.RouteAction_HashPolicy_Cookie{Name: in.GetName(), Path: in.GetPath(), Ttl: in.GetTtl()}
	for _, a := range in.GetAttributes() {
		out.Attributes = append(out.Attributes, &routev3.RouteAction_HashPolicy_CookieAttribute{Name: a.GetName(), Value: a.GetValue()})
	}
	return out
}

// serviceHash is the hash of requests to a service that no rule routes: the port's, or else the
// service's.
func serviceHash(v view.View, s *mesh.Service, port uint32) *consistentHash {
	policy := upstream.SpecOf(v.Scope.DestinationRule(v.Proxy, s.Hostname)).GetTrafficPolicy()
	return firstHash(portHash(policy, port), policy.GetLoadBalancer().GetConsistentHash())
}

// destinationHash is the hash of requests to a destination: the most specific one counts.
func destinationHash(v view.View, d *networking.Destination) *consistentHash {
	rule := upstream.SpecOf(v.Scope.DestinationRule(v.Proxy, d.GetHost()))
	port := d.GetPort().GetNumber()
	general := firstHash(portHash(rule.GetTrafficPolicy(), port), rule.GetTrafficPolicy().GetLoadBalancer().GetConsistentHash())
	for _, subset := range rule.GetSubsets() {
		if subset.GetName() == d.GetSubset() {
			own := subset.GetTrafficPolicy()
			return firstHash(portHash(own, port), own.GetLoadBalancer().GetConsistentHash(), general)
		}
	}
	return general
}

func portHash(policy *networking.TrafficPolicy, port uint32) *consistentHash {
	if port == 0 {
		return nil
	}
	return upstream.PortSettings(policy, &mesh.Port{Number: port}).GetLoadBalancer().GetConsistentHash()
}

func firstHash(candidates ...*consistentHash) *consistentHash {
	for _, hash := range candidates {
		if hash != nil {
			return hash
		}
	}
	return nil
}
