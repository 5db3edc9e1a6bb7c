package kinds

import "strings"

// HealthLabel says on an endpoint within a ServiceEntry how the workload is. One without it is
// healthy. It is no label of the workload: subsets do not see it.
const HealthLabel = "mesh.pgmesh.io/health"

// The healths of a workload. All but the first keep requests away.
const (
	HealthHealthy   = "healthy"
	HealthUnhealthy = "unhealthy"
	HealthUnknown   = "unknown"  // nobody has looked yet
	HealthDraining  = "draining" // it is about to leave: it is an endpoint for nobody, and serves what still comes
)

// HealthAnnotation says on a WorkloadEntry how the workload is: "unhealthy", with what is wrong
// after a colon, "unknown" before the first probe, or "draining". A workload without it is healthy.
const HealthAnnotation = "mesh.pgmesh.io/health"

// MachineAnnotation is on the WorkloadEntry of a machine that registered itself, and says which.
const MachineAnnotation = "mesh.pgmesh.io/machine"

// Health is what a WorkloadEntry says of the health of its workload.
func (r *Resource) Health() string { return HealthOf(r.Annotations[HealthAnnotation]) }

// HealthOf is the health that a label or an annotation says. It is healthy if they say nothing, or
// nothing that is known.
func HealthOf(said string) string {
	word, _, _ := strings.Cut(said, ":")
	if word = strings.TrimSpace(word); KeepsAway(word) {
		return word
	}
	return HealthHealthy
}

// KeepsAway reports whether nothing is sent to a workload of this health. Words that nobody knows are
// ignored, so that a typing error does not take a workload out.
func KeepsAway(health string) bool {
	return health == HealthUnhealthy || health == HealthUnknown || health == HealthDraining
}
