package kinds

import "strings"

// HealthLabel says on an endpoint within a ServiceEntry how the workload is. One without it is
// healthy. It is no label of the workload: subsets do not see it.
const HealthLabel = "mesh.pgmesh.io/health"

// The healths of a workload. All but the first keep requests away.
const (
	HealthHealthy   = "healthy"
	HealthUnhealthy = "unhealthy"
	HealthUnknown   = "unknown" // nobody has looked yet
)

// HealthAnnotation says on a WorkloadEntry how the workload is: "unhealthy", with what is wrong
// after a colon, or "unknown" before the first probe. A workload without it is healthy.
const HealthAnnotation = "mesh.pgmesh.io/health"

// Unhealthy reports whether the health of a WorkloadEntry keeps requests away from it.
func (r *Resource) Unhealthy() bool {
	return HealthOf(r.Annotations[HealthAnnotation]) != HealthHealthy
}

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
func KeepsAway(health string) bool { return health == HealthUnhealthy || health == HealthUnknown }
