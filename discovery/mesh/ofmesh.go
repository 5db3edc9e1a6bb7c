package mesh

import (
	"fmt"

	"github.com/pgmesh/pgmesh/discovery/configstore"
	"github.com/pgmesh/pgmesh/kinds"
)

// ofMesh returns the resource of a kind that configures the mesh as a whole; nil if there is none.
// It counts in one namespace only, so that nobody else can decide about the mesh by being first.
// Postgres refuses a second one; from other sources the oldest counts.
func ofMesh(snapshot *configstore.Snapshot, kind *kinds.Kind) *kinds.Resource {
	for r := range snapshot.Of(kind) {
		if r.Namespace == kinds.MeshNamespace {
			return r
		}
	}
	return nil
}

// besideOfMesh lists the resources of the kind that have no effect. One alone counts: the oldest in
// the namespace of the mesh.
func besideOfMesh(snapshot *configstore.Snapshot, kind *kinds.Kind) (out []Problem) {
	counts := ofMesh(snapshot, kind)
	for r := range snapshot.Of(kind) {
		switch {
		case r == counts:
		case r.Namespace != kinds.MeshNamespace:
			out = append(out, Problem{Of: r.Key(), Path: "metadata.namespace", Reason: fmt.Sprintf(
				"is without effect: it would configure the whole mesh, and counts in the namespace %q alone. Delete it", kinds.MeshNamespace)})
		default:
			out = append(out, Problem{Of: r.Key(), Path: "metadata.name", Reason: fmt.Sprintf(
				"is without effect: the mesh has one, and the older %s counts. Remove one of the two", counts.Key())})
		}
	}
	return out
}
