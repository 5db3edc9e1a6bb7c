package kinds

import (
	"slices"

	"google.golang.org/protobuf/reflect/protoreflect"
)

const (
	networking  = "networking.istio.io"
	security    = "security.istio.io"
	telemetry   = "telemetry.istio.io"
	extensions  = "extensions.istio.io"
	gatewayAPI  = "gateway.networking.k8s.io"
	gatewayAPIX = "gateway.networking.x-k8s.io"
	inference   = "inference.networking.k8s.io"
	core        = "core" // MCP's spelling of the empty group
)

func versions(v ...string) []string { return v }
func short(n ...string) []string    { return n }

// istio describes a namespaced kind of Istio, with its legacy MCP collection.
func istio(name, plural string, shortNames []string, group string, vs []string, message protoreflect.FullName, collection string) *Kind {
	return &Kind{
		Name: name, Plural: plural, ShortNames: shortNames, Group: group, Versions: vs,
		Namespaced: true, Message: message, Collection: collection,
	}
}

// k8s describes a namespaced kind that has no protobuf message.
func k8s(name, plural, group string, vs []string, shortNames ...string) *Kind {
	return &Kind{Name: name, Plural: plural, ShortNames: shortNames, Group: group, Versions: vs, Namespaced: true}
}

// registry has one row per kind. istiod asks for the first version since 1.24, and asked for the
// second before. Its CRDs also accept the others.
var registry = []*Kind{
	istio("AuthorizationPolicy", "authorizationpolicies", short("ap"), security, versions("v1", "v1beta1"), "istio.security.v1beta1.AuthorizationPolicy", "istio/security/v1beta1/authorizationpolicies"),
	istio("DestinationRule", "destinationrules", short("dr"), networking, versions("v1", "v1alpha3", "v1beta1"), "istio.networking.v1alpha3.DestinationRule", "istio/networking/v1alpha3/destinationrules"),
	istio("EnvoyFilter", "envoyfilters", nil, networking, versions("v1alpha3"), "istio.networking.v1alpha3.EnvoyFilter", "istio/networking/v1alpha3/envoyfilters"),
	istio("Gateway", "gateways", short("gw"), networking, versions("v1", "v1alpha3", "v1beta1"), "istio.networking.v1alpha3.Gateway", "istio/networking/v1alpha3/gateways"),
	istio("PeerAuthentication", "peerauthentications", short("pa"), security, versions("v1", "v1beta1"), "istio.security.v1beta1.PeerAuthentication", "istio/security/v1beta1/peerauthentications"),
	istio("ProxyConfig", "proxyconfigs", nil, networking, versions("v1beta1"), "istio.networking.v1beta1.ProxyConfig", ""),
	istio("RequestAuthentication", "requestauthentications", short("ra"), security, versions("v1", "v1beta1"), "istio.security.v1beta1.RequestAuthentication", "istio/security/v1beta1/requestauthentications"),
	istio("ServiceEntry", "serviceentries", short("se"), networking, versions("v1", "v1alpha3", "v1beta1"), "istio.networking.v1alpha3.ServiceEntry", "istio/networking/v1alpha3/serviceentries"),
	istio("Sidecar", "sidecars", nil, networking, versions("v1", "v1alpha3", "v1beta1"), "istio.networking.v1alpha3.Sidecar", "istio/networking/v1alpha3/sidecars"),
	istio("Telemetry", "telemetries", short("telemetry"), telemetry, versions("v1", "v1alpha1"), "istio.telemetry.v1alpha1.Telemetry", ""),
	istio("TrafficExtension", "trafficextensions", nil, extensions, versions("v1alpha1"), "istio.extensions.v1alpha1.TrafficExtension", ""),
	istio("VirtualService", "virtualservices", short("vs"), networking, versions("v1", "v1alpha3", "v1beta1"), "istio.networking.v1alpha3.VirtualService", "istio/networking/v1alpha3/virtualservices"),
	istio("WasmPlugin", "wasmplugins", nil, extensions, versions("v1alpha1"), "istio.extensions.v1alpha1.WasmPlugin", ""),
	istio("WorkloadEntry", "workloadentries", short("we"), networking, versions("v1", "v1alpha3", "v1beta1"), "istio.networking.v1alpha3.WorkloadEntry", "istio/networking/v1alpha3/workloadentries"),
	istio("WorkloadGroup", "workloadgroups", short("wg"), networking, versions("v1", "v1alpha3", "v1beta1"), "istio.networking.v1alpha3.WorkloadGroup", "istio/networking/v1alpha3/workloadgroups"),
	{Name: "MeshConfig", Plural: "meshconfigs", Group: core, Versions: versions("v1alpha1"), Namespaced: true, Message: "istio.mesh.v1alpha1.MeshConfig", Collection: "istio/mesh/v1alpha1/MeshConfig", Bare: true},
	{Name: "MeshNetworks", Plural: "meshnetworks", Group: core, Versions: versions("v1alpha1"), Namespaced: true, Message: "istio.mesh.v1alpha1.MeshNetworks", Collection: "istio/mesh/v1alpha1/MeshNetworks", Bare: true},

	{Name: "GatewayClass", Plural: "gatewayclasses", ShortNames: short("gc"), Group: gatewayAPI, Versions: versions("v1", "v1beta1", "v1alpha2")},
	k8s("Gateway", "gateways", gatewayAPI, versions("v1", "v1beta1", "v1alpha2"), "gtw"),
	k8s("HTTPRoute", "httproutes", gatewayAPI, versions("v1", "v1beta1", "v1alpha2")),
	k8s("GRPCRoute", "grpcroutes", gatewayAPI, versions("v1", "v1alpha2")),
	k8s("TCPRoute", "tcproutes", gatewayAPI, versions("v1", "v1alpha2")),
	k8s("TLSRoute", "tlsroutes", gatewayAPI, versions("v1", "v1alpha3", "v1alpha2")),
	k8s("UDPRoute", "udproutes", gatewayAPI, versions("v1alpha2", "v1")),
	k8s("ReferenceGrant", "referencegrants", gatewayAPI, versions("v1beta1", "v1", "v1alpha2"), "refgrant"),
	k8s("BackendTLSPolicy", "backendtlspolicies", gatewayAPI, versions("v1", "v1alpha3"), "btlspolicy"),
	k8s("ListenerSet", "listenersets", gatewayAPI, versions("v1"), "lset"),
	k8s("XBackend", "xbackends", gatewayAPIX, versions("v1alpha1")),
	k8s("XBackendTrafficPolicy", "xbackendtrafficpolicies", gatewayAPIX, versions("v1alpha1"), "xbtrafficpolicy"),
	k8s("InferencePool", "inferencepools", inference, versions("v1"), "infpool"),
}

// All returns every kind, in the order of the registry.
func All() []*Kind { return slices.Clone(registry) }
