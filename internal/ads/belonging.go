package ads

import (
	"iter"
	"slices"
	"strings"
)

// holding is what a stream knows of a type to whose resources others belong.
type holding struct {
	// taken are those that the client has accepted, and so has what belongs to them.
	taken map[string]bool
	// sent are those in the response that the client has not answered.
	sent       []string
	belongings []*subscription
}

// belonging is what a stream knows of a type whose resources belong to others.
type belonging struct {
	to *subscription // nil while the client has not asked for what they belong to
	// lost is what the client has forgotten. It is told that this is gone before it is sent again what it belonged to: so the versions
	// that it names on another stream are of what it has, and of nothing else.
	lost []string
	// reviewed are owners of which everything is to be compared.
	reviewed map[string]bool
}

// ownerless tells whether nothing can be done about a type, because the client has not asked for the one that it belongs to.
func (b *belonging) ownerless() bool { return b != nil && b.to == nil }

func (b *belonging) reviews() bool { return b != nil && len(b.reviewed) > 0 }

// ownerOf is the name of what a resource belongs to.
func ownerOf(name string) string { return name[:max(0, strings.LastIndexByte(name, '/'))] }

// relate finds what a new subscription has to do with the others of the stream. A state of the world cannot say that one
// resource more has come: there, nothing belongs to anything.
func (s *Stream) relate(sub *subscription) {
	if !s.wire.incremental() {
		return
	}
	for canonical, to := range s.cfg.Belongs {
		if sub.canonical == canonical {
			sub.belongs = &belonging{}
		}
		if sub.canonical == to {
			sub.owns = &holding{taken: map[string]bool{}}
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

// link makes the subscription the one that another belongs to, if it does. What the client names of an earlier stream that belongs to
// nothing that it names is left from something that it has forgotten.
func (s *subscription) link(other *subscription, belongs map[string]string) {
	if s.owns == nil || other.belongs == nil || other.belongs.to != nil || belongs[other.canonical] != s.canonical {
		return
	}
	other.belongs.to = s
	s.owns.belongings = append(s.owns.belongings, other)
	for r := range other.have.All() { // of the set as it is now
		if owner := ownerOf(r.Name); !s.owns.taken[owner] {
			other.lose(owner)
		}
	}
}

// heldBack tells whether a type has to wait for another: what belongs to something until the client has answered for that, and that
// until the client knows what it has lost.
func (s *Stream) heldBack(sub *subscription) bool {
	if b := sub.belongs; b != nil && (b.to.pending != "" || !b.to.settled(s.allowed(b.to))) {
		return true
	}
	return sub.owns != nil && slices.ContainsFunc(sub.owns.belongings, func(other *subscription) bool { return len(other.belongs.lost) > 0 })
}

// heard takes in which resources a client asks for, or no longer does: of both it has forgotten what belonged to them.
func (h *holding) heard(sub *subscription, r *request) {
	if h == nil {
		return
	}
	for _, name := range slices.Concat(r.unsubscribe, r.subscribe) {
		h.lose(name)
	}
	if slices.Contains(r.unsubscribe, "*") {
		for name := range h.taken {
			if !sub.asksFor(name) {
				h.lose(name)
			}
		}
	}
}

func (h *holding) lose(name string) {
	delete(h.taken, name)
	h.sent = slices.DeleteFunc(h.sent, func(sent string) bool { return sent == name })
	for _, other := range h.belongings {
		other.lose(name)
	}
}

// lose forgets what belonged to a resource.
func (s *subscription) lose(owner string) {
	var names []string
	for r := range s.have.belongingTo(owner) {
		names = append(names, r.Name)
	}
	s.change(nil, names)
	s.undoubt(names)
	delete(s.belongs.reviewed, owner)
	s.belongs.lost = append(s.belongs.lost, names...)
}

// losing tells whether there is something that the client is to be told that it has lost.
func (s *subscription) losing() bool { return s.belongs != nil && len(s.belongs.lost) > 0 }

// losses are what the client is to be told that it has lost, which it then has been.
func (s *subscription) losses() (names []string) {
	if s.belongs != nil {
		names, s.belongs.lost = s.belongs.lost, nil
	}
	return names
}

// sends notes what the response has that the client is to answer next.
func (h *holding) sends(resources []*Resource) {
	if h == nil {
		return
	}
	h.sent = h.sent[:0]
	for _, r := range resources {
		h.sent = append(h.sent, r.Name)
	}
}

// accepted takes in that the client has taken what it was sent: from now on it has a use for what belongs to that.
func (h *holding) accepted() {
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

// due tells, quickest in the order of names, which resources the client is to be brought to. While the owner is not there, or the client has
// not accepted it, nothing is done to what belongs to it: Envoy uses a route configuration that is gone until its listener is.
func (b *belonging) due() func(name string) bool {
	if b == nil {
		return func(string) bool { return true }
	}
	last, is := "", b.isDue("")
	return func(name string) bool {
		if owner := ownerOf(name); owner != last {
			last, is = owner, b.isDue(owner)
		}
		return is
	}
}

func (b *belonging) isDue(owner string) bool {
	return b.to.owns.taken[owner] && b.to.target.Get(owner) != nil
}

// underReview lists the names, of both sets, that belong to owners under review and that the client wants.
func (s *subscription) underReview(goal *Set) (names []string) {
	if s.belongs == nil {
		return nil
	}
	for owner := range s.belongs.reviewed {
		for _, set := range []*Set{goal, s.have} {
			for r := range set.belongingTo(owner) {
				if s.wants(r.Name) {
					names = append(names, r.Name)
				}
			}
		}
	}
	return names
}

// belongingTo goes through what belongs to one resource, in the order of names.
func (s *Set) belongingTo(owner string) iter.Seq[*Resource] {
	return func(yield func(*Resource) bool) {
		if s.Len() == 0 {
			return
		}
		prefix := owner + "/"
		for _, page := range s.pages[s.pages.of(prefix):] {
			for _, r := range page {
				switch {
				case r.Name < prefix:
				case !strings.HasPrefix(r.Name, prefix):
					return
				case ownerOf(r.Name) == owner && !yield(r):
					return
				}
			}
		}
	}
}

// like tells whether two sets have the same.
func (s *Set) like(other *Set) bool {
	if s.Len() != other.Len() {
		return false
	}
	for r := range s.All() {
		if o := other.Get(r.Name); o == nil || o.Version != r.Version {
			return false
		}
	}
	return true
}
