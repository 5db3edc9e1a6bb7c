package kinds

import "strings"

// HealthLabel says on an endpoint within a ServiceEntry how the workload is. One without it is
// healthy. It is no label of the workload: subsets do not see it.
const HealthLabel = "mesh.pgmesh.io/health"

// The healths that keep requests away.
const (
	HealthUnhealthy = "unhealthy"
	HealthUnknown   = "unknown" // nobody has looked yet
)

// HealthAnnotation says on a WorkloadEntry how the workload is: "unhealthy", with what is wrong
// after a colon, or "unknown" before the first probe. A workload without it is healthy.
const HealthAnnotation = "mesh.pgmesh.io/health"

// Unhealthy reports whether the health of a WorkloadEntry keeps requests away from it.
func (r *Resource) Unhealthy() bool {
	word, _, _ := strings.Cut(r.Annotations[HealthAnnotation], ":")
	return KeepsAway(strings.TrimSpace(word))
}

// KeepsAway reports whether nothing is sent to a workload of this health. Words that nobody knows are
// ignored, so that a typing error does not take a workload out.
func KeepsAway(health string) bool { return health == HealthUnhealthy || health == HealthUnknown }
