package rollout

import rolloutv1 "github.com/pgmesh/pgmesh/proto/pgmesh/rollout/v1"

// mostStatuses bounds a message, as the protocol does.
const mostStatuses = 1000

// statuses returns what the mesh decides of the status of resources of the Gateway API, where that
// differs from what was reported. Call it only for a report that is made for certain.
func (l *ledger) statuses() (all []*rolloutv1.Status) {
	for _, s := range l.of.Statuses.Changed() {
		m := &rolloutv1.Status{Resource: resourceOf(s.Of)}
		if s.Status != nil {
			m.Status = s.Text()
		}
		all = append(all, m)
	}
	return all
}
