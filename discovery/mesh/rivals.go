package mesh

import (
	"fmt"

	networking "istio.io/api/networking/v1alpha3"
	security "istio.io/api/security/v1beta1"

	"github.com/pgmesh/pgmesh/discovery/configstore"
	"github.com/pgmesh/pgmesh/kinds"
)

func sidecarSelector(r *kinds.Resource) map[string]string {
	return specOf[*networking.Sidecar](r).GetWorkloadSelector().GetLabels()
}

func peerSelector(r *kinds.Resource) map[string]string {
	return specOf[*security.PeerAuthentication](r).GetSelector().GetMatchLabels()
}

// rivals lists resources of a kind that have no effect because an older one is for the same set of
// workloads, and only one counts.
func rivals(snapshot *configstore.Snapshot, kind *kinds.Kind, selector func(*kinds.Resource) map[string]string) []Problem {
	type workloads struct{ namespace, labels string }
	oldest := map[workloads]*kinds.Resource{}
	var out []Problem
	for r := range snapshot.Of(kind) {
		key := workloads{r.Namespace, fmt.Sprint(selector(r))} // in the order of the labels' names
		if first := oldest[key]; first != nil {
			out = append(out, Problem{Of: r.Key(), Path: "spec", Reason: fmt.Sprintf(
				"is without effect: the older %s is for the same workloads, and of several the oldest counts. Remove one of the two, or have it select other workloads",
				first.Key())})
			continue
		}
		oldest[key] = r
	}
	return out
}

// forNobody lists the PeerAuthentications in the root namespace that select workloads: those in the
// root namespace are for the whole mesh.
func (m *Mesh) forNobody() []Problem {
	var out []Problem
	for r := range m.from.Of(kindPeerAuthentication) {
		if r.Namespace == m.peers.root && len(peerSelector(r)) > 0 {
			out = append(out, Problem{Of: r.Key(), Path: "spec.selector", Reason: "selects nobody: in the root namespace a " +
				"PeerAuthentication is for the whole mesh. Put it into the namespace of the workloads, or remove the selector"})
		}
	}
	return out
}
