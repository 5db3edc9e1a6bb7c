package reference

import "strings"

// Mesh is the gateway name that stands for all sidecars.
const Mesh = "mesh"

// ClusterDomain completes short names: reviews in namespace default is
// reviews.default.svc.cluster.local. Istio does the same for every VirtualService and
// DestinationRule.
const ClusterDomain = "svc.cluster.local"

// FullHost completes a short host name, one without dots, with its namespace. Addresses are already
// complete. mesh_internal.full_host does the same in SQL.
func FullHost(host, namespace string) string {
	if host != "" && host != "*" && namespace != "" && !strings.ContainsAny(host, ".:") {
		host += "." + namespace + "." + ClusterDomain
	}
	return strings.ToLower(host)
}

// FullGateway returns the name of a gateway as namespace/name. Users also write the bare name,
// ./name, and the older name.namespace or name.namespace.svc.cluster.local.
// mesh_internal.full_gateway does the same in SQL.
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
