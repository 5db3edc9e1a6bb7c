package mesh

import (
	"maps"
	"strings"

	"github.com/pgmesh/pgmesh/kinds"
)

// HealthAnnotation says on a WorkloadEntry how the workload is: "unhealthy", with what is wrong
// after a colon, or "unknown" before the first probe. A workload without it is healthy.
const HealthAnnotation = "mesh.pgmesh.io/health"

// unhealthy reports whether the health of a WorkloadEntry keeps requests away from it.
func unhealthy(r *kinds.Resource) bool {
	word, _, _ := strings.Cut(r.Annotations[HealthAnnotation], ":")
	return keepsAway(strings.TrimSpace(word))
}

// keepsAway reports whether nothing is sent to a workload of this health. Words that nobody knows are
// ignored, so that a typing error does not take a workload out.
func keepsAway(health string) bool {
	return health == kinds.HealthUnhealthy || health == kinds.HealthUnknown
}

// apart takes the health out of the labels of an endpoint.
func apart(labels map[string]string) (rest map[string]string, unhealthy bool) {
	health, found := labels[kinds.HealthLabel]
	if !found {
		return labels, false
	}
	rest = maps.Clone(labels)
	delete(rest, kinds.HealthLabel)
	return rest, keepsAway(health)
}
