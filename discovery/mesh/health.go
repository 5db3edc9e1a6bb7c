package mesh

import (
	"strings"

	"github.com/pgmesh/pgmesh/kinds"
)

// HealthAnnotation says of a WorkloadEntry how the workload is: "unhealthy", with what is wrong after a colon, or "unknown" before it was found
// out. One without it is well.
const HealthAnnotation = "mesh.pgmesh.io/health"

// The words that HealthAnnotation may begin with. What else stands there means nothing: a workload is not to be lost to a typing error.
const (
	healthUnhealthy = "unhealthy"
	healthUnknown   = "unknown"
)

// unhealthy reports whether nothing is to be sent to a WorkloadEntry by what it says of its health.
func unhealthy(r *kinds.Resource) bool {
	word, _, _ := strings.Cut(r.Annotations[HealthAnnotation], ":")
	switch strings.TrimSpace(word) {
	case healthUnhealthy, healthUnknown:
		return true
	default:
		return false
	}
}
