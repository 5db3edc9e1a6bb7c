package mesh

import (
	"maps"

	"github.com/pgmesh/pgmesh/kinds"
)

// apart takes the health out of the labels of an endpoint.
func apart(labels map[string]string) (rest map[string]string, health string) {
	said, found := labels[kinds.HealthLabel]
	if !found {
		return labels, kinds.HealthHealthy
	}
	rest = maps.Clone(labels)
	delete(rest, kinds.HealthLabel)
	return rest, kinds.HealthOf(said)
}
