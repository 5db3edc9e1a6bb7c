package ads

import (
	"slices"

	"github.com/pgmesh/pgmesh/internal/ads/served"
	"github.com/pgmesh/pgmesh/internal/ads/wire"
)

// ownerState is what a stream knows of a type that owns resources of other types.
type ownerState struct {
	// taken are the owners that the client has accepted. It is sent what belongs to them.
	taken map[string]bool
	// sent are the owners in the response that the client has not answered.
	sent       []string
	belongings []*subscription
}

// ownedState is what a stream knows of a type whose resources belong to owners.
type ownedState struct {
	to *subscription // the owners' subscription; nil while the client has not asked for them
	// lost are resources that the client has forgotten. It is told of their removal before it is
	// sent their owner again. So the versions that it names on its next stream are only of what it
	// really has.
	lost []string
	// reviewed are owners whose resources must all be compared again.
	reviewed map[string]bool
}

// ownerless reports whether nothing can be sent, because the client has not asked for the owners'
// type.
func (b *ownedState) ownerless() bool { return b != nil && b.to == nil }

func (b *ownedState) reviews() bool { return b != nil && len(b.reviewed) > 0 }

// relate links a new subscription with the stream's subscriptions to owners or owned types. It does
// nothing for state of the world, which cannot say that a single resource was added.
func (s *Stream) relate(sub *subscription) {
	if !s.form.Incremental() {
		return
	}
	for canonical, to := range s.cfg.Belongs {
		if sub.canonical == canonical {
			sub.belongs = &ownedState{}
		}
		if sub.canonical == to {
			sub.owns = &ownerState{taken: map[string]bool{}}
			for r := range sub.have.All() { // from an earlier stream
				sub.owns.taken[r.Name] = true
			}
		}
	}
	for _, other := range s.subs {
		other.link(sub, s.cfg.Belongs)
		sub.link(other, s.cfg.Belongs)
	}
}

// link makes s the owners' subscription of another, if it is. Resources that the client names from
// an earlier stream whose owner it does not name are marked as lost.
func (s *subscription) link(other *subscription, belongs map[string]string) {
	if s.owns == nil || other.belongs == nil || other.belongs.to != nil || belongs[other.canonical] != s.canonical {
		return
	}
	other.belongs.to = s
	s.owns.belongings = append(s.owns.belongings, other)
	for r := range other.have.All() { // the set as it was before the loop changes it
		if owner := served.OwnerOf(r.Name); !s.owns.taken[owner] {
			other.lose(owner)
		}
	}
}

// heldBack reports whether a type must wait for another: an owned type until the client has
// answered for the owners, and the owners until the client has been told what it has lost.
func (s *Stream) heldBack(sub *subscription) bool {
	if b := sub.belongs; b != nil && (b.to.pending != "" || !b.to.settled(s.allowed(b.to))) {
		return true
	}
	return sub.owns != nil && slices.ContainsFunc(sub.owns.belongings, func(other *subscription) bool { return len(other.belongs.lost) > 0 })
}

// handleRequest notes which owners the client asks for again or drops: in both cases it has
// forgotten what belonged to them.
func (h *ownerState) handleRequest(sub *subscription, r *wire.Request) {
	if h == nil {
		return
	}
	for _, name := range slices.Concat(r.Unsubscribe, r.Subscribe) {
		h.lose(name)
	}
	if slices.Contains(r.Unsubscribe, "*") {
		for name := range h.taken {
			if !sub.asksFor(name) {
				h.lose(name)
			}
		}
	}
}

func (h *ownerState) lose(name string) {
	delete(h.taken, name)
	h.sent = slices.DeleteFunc(h.sent, func(sent string) bool { return sent == name })
	for _, other := range h.belongings {
		other.lose(name)
	}
}

// lose forgets what belonged to an owner.
func (s *subscription) lose(owner string) {
	var names []string
	for r := range s.have.OwnedBy(owner) {
		names = append(names, r.Name)
	}
	s.change(nil, names)
	s.clearDoubts(names)
	delete(s.belongs.reviewed, owner)
	s.belongs.lost = append(s.belongs.lost, names...)
}

// losing reports whether the client must still be told what it has lost.
func (s *subscription) losing() bool { return s.belongs != nil && len(s.belongs.lost) > 0 }

// losses returns what the client must be told that it has lost, and clears the list.
func (s *subscription) losses() (names []string) {
	if s.belongs != nil {
		names, s.belongs.lost = s.belongs.lost, nil
	}
	return names
}

// sends records the owners in the response that is being sent.
func (h *ownerState) sends(resources []*served.Resource) {
	if h == nil {
		return
	}
	h.sent = h.sent[:0]
	for _, r := range resources {
		h.sent = append(h.sent, r.Name)
	}
}

// accepted notes that the client has accepted the owners it was sent, so that what belongs to them
// can follow.
func (h *ownerState) accepted() {
	if h == nil {
		return
	}
	for _, name := range h.sent {
		for _, other := range h.belongings {
			add(&other.belongs.reviewed, name, true)
		}
		h.taken[name] = true
	}
	h.sent = nil
}

// due returns a function that reports whether a resource may be updated on the client; it is
// fastest in the order of names. Without an accepted, existing owner nothing changes: Envoy uses a
// route configuration that is gone until its listener is gone, too.
func (b *ownedState) due() func(name string) bool {
	if b == nil {
		return func(string) bool { return true }
	}
	last, is := "", b.isDue("")
	return func(name string) bool {
		if owner := served.OwnerOf(name); owner != last {
			last, is = owner, b.isDue(owner)
		}
		return is
	}
}

func (b *ownedState) isDue(owner string) bool {
	return b.to.owns.taken[owner] && b.to.target.Get(owner) != nil
}

// underReview lists the names, from both sets, that belong to owners under review and that the
// client wants.
func (s *subscription) underReview(goal *served.Set) (names []string) {
	if s.belongs == nil {
		return nil
	}
	for owner := range s.belongs.reviewed {
		for _, set := range []*served.Set{goal, s.have} {
			for r := range set.OwnedBy(owner) {
				if s.wants(r.Name) {
					names = append(names, r.Name)
				}
			}
		}
	}
	return names
}
