package kinds

// HealthLabel says on an endpoint within a ServiceEntry how the workload is. One without it is
// healthy. It is no label of the workload: subsets do not see it.
const HealthLabel = "mesh.pgmesh.io/health"

// The healths that keep requests away.
const (
	HealthUnhealthy = "unhealthy"
	HealthUnknown   = "unknown" // nobody has looked yet
)
