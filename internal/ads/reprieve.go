package ads

import (
	"maps"
	"slices"
)

// reprieve is what is known of resources that were refused alone before others were accepted. What belongs to one resource may be in the
// way of something else that does: of a domain that moves from one virtual host to another, Envoy refuses the one that has come to have it
// for as long as the other has not let it go. So once all doubts are cleared up, what was refused is tried again, if anything of what
// was in doubt was accepted.
type reprieve struct {
	refused map[string]bool
	eased   bool
}

// hasten notes that a resource was refused alone, perhaps too soon.
func (s *subscription) hasten(name string) {
	if s.belongs != nil {
		add(&s.isolation.reprieve.refused, name, true)
	}
}

// eases notes that the client accepts something that was in doubt.
func (i *isolation) eases(name string) {
	i.reprieve.eased = i.reprieve.eased || len(i.reprieve.refused) > 0 && i.doubted(name)
}

// reprieve has what was refused tried again, each by itself, when all else is cleared up.
func (s *subscription) reprieve() {
	i := s.isolation
	if i == nil || len(i.doubts) > 0 {
		return
	}
	again := i.reprieve
	i.reprieve = reprieve{}
	if !again.eased {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(again.refused)) {
		if f := i.refused[name]; f != nil {
			i.doubts[name] = doubt{had: f.had, version: f.version}
			i.groups = append(i.groups, []string{name})
		}
	}
}
