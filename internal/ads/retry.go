package ads

import (
	"maps"
	"slices"
)

// reprieve is what is known of resources that were refused alone although they may be taken with others, or after them. What belongs to one
// resource may be in the way of something else that does: of a domain that moves from one virtual host to another, Envoy refuses the one that has
// come to have it for as long as the other has not let it go, and of two that swap theirs it takes both or none. So once all doubts are cleared
// up, some of what was refused is tried again, in one response: what belongs together with something that was accepted, or let go, after it, or with something that is
// refused anew in another version, of which it may be the counterpart; or else what was refused for another reason than all of it together, for what
// has that reason is what was wrong then.
type reprieve struct {
	refused map[string]bool
	reason  string          // of the first refusal of several
	eased   map[string]bool // owners to which something belongs that was accepted late, or let go
	anew    map[string]bool // owners to which something belongs that was refused in another version before
}

// hasten notes that a resource was refused alone, perhaps too soon.
func (s *subscription) hasten(name string, anew bool) {
	if s.belongs == nil {
		return
	}
	r := &s.isolation.reprieve
	add(&r.refused, name, true)
	if anew {
		add(&r.anew, ownerOf(name), true)
	}
}

// accuses notes why several resources were refused together.
func (i *isolation) accuses(reason string) {
	if i.reprieve.reason == "" {
		i.reprieve.reason = longest(reason)
	}
}

// eases notes that the client accepts something that was in doubt, or that it has refused.
func (s *subscription) eases(name string, pardoned bool) {
	i := s.isolation
	if s.belongs != nil && (pardoned || len(i.reprieve.refused) > 0 && i.doubted(name)) {
		add(&i.reprieve.eased, ownerOf(name), true)
	}
}

// relieve notes what the client has let go of: what was to be removed, but for what remains.
func (s *subscription) relieve(removed, remaining []string) {
	if s.belongs == nil || s.isolation == nil || len(remaining) > 0 {
		return
	}
	for _, name := range removed {
		add(&s.isolation.reprieve.eased, ownerOf(name), true)
	}
}

// reprieve has what was refused tried again, when all else is cleared up.
func (s *subscription) reprieve() {
	i := s.isolation
	if i == nil || len(i.doubts) > 0 {
		return
	}
	names := i.reprieved()
	i.reprieve = reprieve{}
	for _, name := range names {
		f := i.refused[name]
		i.doubts[name] = doubt{had: f.had, version: f.version}
	}
	if len(names) > 0 {
		i.groups = append(i.groups, names)
	}
}

// reprieved lists what is worth another try.
func (i *isolation) reprieved() (names []string) {
	together := map[string]int{}
	for name := range i.refused {
		together[ownerOf(name)]++
	}
	for _, name := range slices.Sorted(maps.Keys(i.refused)) {
		if owner := ownerOf(name); i.reprieve.eased[owner] || i.reprieve.anew[owner] && together[owner] > 1 {
			names = append(names, name)
		}
	}
	if len(names) > 0 {
		return names
	}
	for _, name := range slices.Sorted(maps.Keys(i.reprieve.refused)) {
		if f := i.refused[name]; f != nil && f.reason != i.reprieve.reason {
			names = append(names, name)
		}
	}
	if len(names) == 1 || len(names) == len(i.reprieve.refused) {
		return nil // nothing would be different
	}
	return names
}
