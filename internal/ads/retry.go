package ads

import (
	"maps"
	"slices"

	"github.com/pgmesh/pgmesh/internal/ads/served"
)

// retry tracks resources that were refused alone although the client may accept them together with others, or
// later. Resources of one owner can block each other: when a domain moves from one virtual host to another,
// Envoy refuses the new one until the old one has dropped it, and of two that swap domains it accepts both or
// none. So once no doubt is left, some refused resources are tried again, in one response. First choice are
// those whose owner has another resource that was accepted late or removed, or several refused ones of which
// one changed. Otherwise it is those refused for another reason than all of them together, for the ones with
// the same reason caused that refusal.
type retry struct {
	refused map[string]bool
	reason  string          // the reason of the first refusal of several resources together
	eased   map[string]bool // owners of something that was accepted late or removed
	anew    map[string]bool // owners of something that was refused again in a new version
}

// noteRefused records that a resource was refused alone, which may have been too early.
func (s *subscription) noteRefused(name string, anew bool) {
	if s.belongs == nil {
		return
	}
	r := &s.isolation.retry
	add(&r.refused, name, true)
	if anew {
		add(&r.anew, served.OwnerOf(name), true)
	}
}

// noteReason records the first reason for which several resources were refused together.
func (i *isolation) noteReason(reason string) {
	if i.retry.reason == "" {
		i.retry.reason = cutReason(reason)
	}
}

// noteAccepted records that the client accepts something that it had refused or that was in doubt.
func (s *subscription) noteAccepted(name string, cleared bool) {
	i := s.isolation
	if s.belongs != nil && (cleared || len(i.retry.refused) > 0 && i.doubted(name)) {
		add(&i.retry.eased, served.OwnerOf(name), true)
	}
}

// noteRemoved records what the client has removed, unless some removals remain.
func (s *subscription) noteRemoved(removed, remaining []string) {
	if s.belongs == nil || s.isolation == nil || len(remaining) > 0 {
		return
	}
	for _, name := range removed {
		add(&s.isolation.retry.eased, served.OwnerOf(name), true)
	}
}

// retryRefused queues refused resources for another try once no doubt is left.
func (s *subscription) retryRefused() {
	i := s.isolation
	if i == nil || len(i.doubts) > 0 {
		return
	}
	names := i.worthRetrying()
	i.retry = retry{}
	for _, name := range names {
		f := i.refused[name]
		i.doubts[name] = doubt{had: f.had, version: f.version}
	}
	if len(names) > 0 {
		i.groups = append(i.groups, names)
	}
}

// worthRetrying lists the refused resources that are worth another try.
func (i *isolation) worthRetrying() (names []string) {
	together := map[string]int{}
	for name := range i.refused {
		together[served.OwnerOf(name)]++
	}
	for _, name := range slices.Sorted(maps.Keys(i.refused)) {
		if owner := served.OwnerOf(name); i.retry.eased[owner] || i.retry.anew[owner] && together[owner] > 1 {
			names = append(names, name)
		}
	}
	if len(names) > 0 {
		return names
	}
	for _, name := range slices.Sorted(maps.Keys(i.retry.refused)) {
		if f := i.refused[name]; f != nil && f.reason != i.retry.reason {
			names = append(names, name)
		}
	}
	if len(names) == 1 || len(names) == len(i.retry.refused) {
		return nil // the same response would be refused again
	}
	return names
}
