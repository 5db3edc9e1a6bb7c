package kinds

import (
	"encoding/json"
	"maps"
	"strconv"
	"strings"
)

// The annotations of resources that come from a registry: mcp-server writes them.
const (
	// OriginAnnotation has the name of the registry.
	OriginAnnotation = "pgmesh.io/origin"
	// OriginRankAnnotation says how many origins count before this one for a host that several claim.
	OriginRankAnnotation = "pgmesh.io/origin-rank"
	// OriginEntryAnnotation says what people have to look for in the registry.
	OriginEntryAnnotation = "pgmesh.io/origin-entry"
	// OriginSetAnnotation names the set of registries that have this service together: those of a set
	// that claim one host are one service.
	OriginSetAnnotation = "pgmesh.io/origin-set"
	// OriginNamespaceAnnotation has the labels of the namespace that a resource is in there:
	// "env=prod,team=shop". The mesh's own namespaces have none.
	OriginNamespaceAnnotation = "pgmesh.io/origin-namespace-labels"
	// OriginAuthoritiesAnnotation has the authorities that a resource names there, as a JSON object: PEM by
	// the namespace and the name of what has it.
	OriginAuthoritiesAnnotation = "pgmesh.io/origin-authorities"
	// OriginEndpointsAnnotation has the Pods that an InferencePool selects there, as a JSON list of
	// WorkloadEntries: its spec has no room for them.
	OriginEndpointsAnnotation = "pgmesh.io/origin-endpoints"
)

// The classes of Gateways that are there without a GatewayClass.
const (
	MeshGatewayClass  = "pgmesh"
	IstioGatewayClass = "istio"
)

// GatewayController is the name of the mesh as a controller of the Gateway API.
const GatewayController = "pgmesh.io/gateway-controller"

// OwnOrigin is what people call the mesh's own database as an origin. No registry may have this name.
const OwnOrigin = "database"

// Origin is the name of the registry that a resource comes from, "" for one of the mesh's own.
func (r *Resource) Origin() string { return r.Annotations[OriginAnnotation] }

// OriginSet is the set of registries that have a service together, "" for none.
func (r *Resource) OriginSet() string { return r.Annotations[OriginSetAnnotation] }

// NamespaceLabel is the label of a namespace that has its name, in Kubernetes and in the mesh.
const NamespaceLabel = "kubernetes.io/metadata.name"

// NamespaceLabels are those of the resource's namespace: its name, and what its registry says.
func (r *Resource) NamespaceLabels() map[string]string {
	labels := readLabels(r.Annotations[OriginNamespaceAnnotation])
	if labels == nil {
		labels = map[string]string{}
	}
	labels[NamespaceLabel] = r.Namespace
	return labels
}

// Authorities are those that the resource names in its registry: PEM, by NAMESPACE/NAME.
func (r *Resource) Authorities() (all map[string]string) {
	if json.Unmarshal([]byte(r.Annotations[OriginAuthoritiesAnnotation]), &all) != nil {
		return nil
	}
	return all
}

// WrittenAuthorities writes authorities as an annotation has them.
func WrittenAuthorities(all map[string]string) string {
	text, err := json.Marshal(all)
	if err != nil {
		panic(err) // only strings
	}
	return string(text)
}

// IsService reports whether a registry's resource was made of a service: its name begins with that of
// the registry. Others are configuration, and keep the names that they have in the registry.
func (r *Resource) IsService() bool {
	origin := r.Origin()
	return origin != "" && r.Kind.Name == "ServiceEntry" && strings.HasPrefix(r.Name, origin+".")
}

// OriginRank is the rank of the origin of a resource: 0 for the mesh's own, then 1 for the registry
// that was named first. A rank that cannot be read is the mesh's own.
func (r *Resource) OriginRank() int {
	text, found := r.Annotations[OriginRankAnnotation]
	if !found {
		return 0
	}
	rank, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return 0
	}
	return int(rank)
}

// WithRank is the resource with another rank of its origin.
func (r *Resource) WithRank(rank int) *Resource {
	other := *r
	other.Annotations = maps.Clone(r.Annotations)
	if other.Annotations == nil {
		other.Annotations = map[string]string{}
	}
	other.Annotations[OriginRankAnnotation] = strconv.Itoa(rank)
	return &other
}

// Claim decides whose a host is that several resources of a namespace claim.
type Claim struct {
	Rank int    // of the origin
	Set  string // of registries; "" for none
}

// Claim is what the resource's claims to its hosts count.
func (r *Resource) Claim() Claim { return Claim{r.OriginRank(), r.OriginSet()} }

// CountsWith reports whether a claim counts beside the first one: it is of the same origin, or of the
// same set of registries. The database decides it in mesh_internal.claimed_hosts and
// mesh_internal.registry_services.
func (c Claim) CountsWith(first Claim) bool {
	return c.Rank == first.Rank || c.Set != "" && c.Set == first.Set
}

// OriginAnnotations are all that say where a resource comes from. What people write has none of them.
func OriginAnnotations() []string {
	return []string{
		OriginAnnotation, OriginAuthoritiesAnnotation, OriginEndpointsAnnotation, OriginEntryAnnotation, OriginNamespaceAnnotation, OriginRankAnnotation, OriginSetAnnotation,
	}
}

// WithoutOrigin returns annotations without those that say where a resource comes from. It copies
// only what it has to change.
func WithoutOrigin(annotations map[string]string) map[string]string {
	copied := false
	for _, key := range OriginAnnotations() {
		if _, found := annotations[key]; !found {
			continue
		}
		if !copied {
			annotations, copied = maps.Clone(annotations), true
		}
		delete(annotations, key)
	}
	return annotations
}
