package mesh

import (
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/configstore"
	"github.com/pgmesh/pgmesh/kinds"
)

// sidecarIndex finds the Sidecar that a proxy obeys. Of several that fit, the oldest counts.
type sidecarIndex struct {
	// byNamespace has those with a workload selector first.
	byNamespace map[string][]*kinds.Resource
	// root is for workloads without a Sidecar of their own namespace.
	root *kinds.Resource

	selectorLabels labelKeys
}

// buildSidecars indexes the Sidecars that a step leads to, those with a workload selector first.
func buildSidecars(now configstore.Step, prev *Mesh, root string, sameConfig bool) sidecarIndex {
	if sameConfig && prev.unchanged(now, kindSidecar) {
		return prev.sidecars
	}
	index := sidecarIndex{byNamespace: map[string][]*kinds.Resource{}, selectorLabels: labelKeys{}}
	for _, selecting := range []bool{true, false} {
		for r := range now.Of(kindSidecar) {
			if selector := specOf[*networking.Sidecar](r).GetWorkloadSelector(); (selector != nil) == selecting {
				index.byNamespace[r.Namespace] = append(index.byNamespace[r.Namespace], r)
				index.selectorLabels.add(selector.GetLabels())
			}
		}
	}
	for _, r := range index.byNamespace[root] {
		if specOf[*networking.Sidecar](r).GetWorkloadSelector() == nil {
			index.root = r
			break
		}
	}
	return index
}

// sidecarOf returns the Sidecar that a proxy obeys, or nil: one that selects its workload, else the
// one for its namespace, else that of the root namespace. Gateways obey none.
func (x *sidecarIndex) sidecarOf(p *Proxy) *kinds.Resource {
	if p.Type != Sidecar {
		return nil
	}
	own := x.byNamespace[p.Namespace]
	for _, r := range own {
		if kinds.LabelsWithin(specOf[*networking.Sidecar](r).GetWorkloadSelector().GetLabels(), p.Labels) {
			return r
		}
	}
	return x.root
}
