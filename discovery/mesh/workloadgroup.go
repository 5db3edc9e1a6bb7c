package mesh

import (
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/kinds"
)

// The kinds by which machines are registered. A group says what the entries of its machines have.
var (
	WorkloadGroup = mustLookup("networking.istio.io", "WorkloadGroup")
	WorkloadEntry = kindWorkloadEntry
)

// WorkloadGroup returns the group of this name; nil if there is none.
func (m *Mesh) WorkloadGroup(namespace, name string) *networking.WorkloadGroup {
	r := m.from.Get(kinds.Key{Kind: WorkloadGroup, Namespace: namespace, Name: name})
	if r == nil {
		return nil
	}
	return specOf[*networking.WorkloadGroup](r)
}
