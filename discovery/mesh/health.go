package mesh

import (
	"strings"

	"github.com/pgmesh/pgmesh/kinds"
)

// HealthAnnotation says on a WorkloadEntry how the workload is: "unhealthy", with what is wrong
// after a colon, or "unknown" before the first probe. A workload without it is healthy.
const HealthAnnotation = "mesh.pgmesh.io/health"

// The words that HealthAnnotation may begin with. Anything else is ignored, so that a typing error
// does not take a workload out.
const (
	healthUnhealthy = "unhealthy"
	healthUnknown   = "unknown"
)

// unhealthy reports whether the health of a WorkloadEntry keeps requests away from it.
func unhealthy(r *kinds.Resource) bool {
	word, _, _ := strings.Cut(r.Annotations[HealthAnnotation], ":")
	switch strings.TrimSpace(word) {
	case healthUnhealthy, healthUnknown:
		return true
	default:
		return false
	}
}
