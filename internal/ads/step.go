package ads

import (
	"slices"

	"github.com/pgmesh/pgmesh/internal/ads/served"
)

// step is what must be sent to a client.
type step struct {
	changed []*served.Resource
	removed []string
	// fresh are references that the client will ask for; again are references that must be sent to
	// it once more.
	fresh, again []served.Ref
	// begins says that the client had nothing of this type before. Then everything that the changed
	// resources refer to is fresh, and is not listed: most clients connect while no plan is under
	// way, and nobody reads the list.
	begins bool
	// absent are requested names that do not exist.
	absent []string
	// held says that there would be more to send if the plan allowed it.
	held bool
	// grows is by how many resources the client's set grows.
	grows int
	// before is what the client had, and repeated is what it needs again.
	before   *served.Set
	repeated map[string]*served.Resource
	// partly says that something was left out because it is not due.
	partly bool
}

func (st *step) empty() bool { return len(st.changed) == 0 && len(st.removed) == 0 }

// change adds a resource that the client has in another version.
func (st *step) change(before, now *served.Resource) {
	st.changed = append(st.changed, now)
	for _, ref := range now.Refs {
		if before.Body == nil || slices.Contains(before.Refs, ref) { // without a body it is known by its version alone
			st.again = append(st.again, ref)
		} else {
			st.fresh = append(st.fresh, ref)
		}
	}
}
