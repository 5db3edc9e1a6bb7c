package kinds

import "strconv"

// The annotations of resources that come from a registry: mcp-server writes them.
const (
	// OriginAnnotation has the name of the registry.
	OriginAnnotation = "pgmesh.io/origin"
	// OriginRankAnnotation says how many origins count before this one for a host that several claim.
	OriginRankAnnotation = "pgmesh.io/origin-rank"
	// OriginEntryAnnotation says what people have to look for in the registry.
	OriginEntryAnnotation = "pgmesh.io/origin-entry"
)

// Origin is the name of the registry that a resource comes from, "" for one of the mesh's own.
func (r *Resource) Origin() string { return r.Annotations[OriginAnnotation] }

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
