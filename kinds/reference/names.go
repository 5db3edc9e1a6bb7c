package reference

import "strings"

// Mesh is what stands for all sidecars where gateways are named.
const Mesh = "mesh"

// ClusterDomain completes short names: reviews in namespace default is reviews.default.svc.cluster.local. Istio does so for every
// VirtualService and DestinationRule that it reads.
const ClusterDomain = "svc.cluster.local"

// FullHost completes a short name of a host, one without dots, as it is meant in a namespace. Addresses are complete. mesh.full_host does the same.
func FullHost(host, namespace string) string {
	if host != "" && host != "*" && namespace != "" && !strings.ContainsAny(host, ".:") {
		host += "." + namespace + "." + ClusterDomain
	}
	return strings.ToLower(host)
}

// FullGateway makes the name of a gateway namespace/name. People also write the bare name, ./name, and, as was once the rule, name.namespace or
// name.namespace.svc.cluster.local. mesh.full_gateway does the same.
func FullGateway(name, namespace string) string {
	if name == Mesh {
		return name
	}
	if in, bare, found := strings.Cut(name, "/"); found {
		if in == "." {
			in = namespace
		}
		return in + "/" + bare
	}
	if bare, rest, dotted := strings.Cut(name, "."); dotted {
		in, _, _ := strings.Cut(rest, ".")
		return in + "/" + bare
	}
	return namespace + "/" + name
}
