package mesh

import (
	"maps"
	"slices"
)

// Rules for requests come and go at a gateway far more often than anything else does. Of thousands, what
// follows looks only at those that do.

// followedBy is the frontend of these inputs. It listens on what the one before did, if it can; that may be nil.
func (f *Frontend) followedBy(from exposed) *Frontend {
	if f == nil || !f.from.sameServers(&from) {
		return buildFrontend(from)
	}
	needing := maps.Clone(f.needing)
	for gateway, rules := range from.rules {
		before := f.from.rules[gateway]
		x := ExchangeOf(before, rules)
		if !x.KeepsOrder(before, rules) || slices.ContainsFunc(x.Gone, (*VirtualService).ForConnections) || slices.ContainsFunc(x.Come, (*VirtualService).ForConnections) {
			return buildFrontend(from)
		}
		if slices.ContainsFunc(x.Gone, (*VirtualService).NeedsOfListeners) || slices.ContainsFunc(x.Come, (*VirtualService).NeedsOfListeners) {
			needing[gateway] = those(rules, (*VirtualService).NeedsOfListeners)
		}
	}
	return &Frontend{f.opened, needing, from}
}

// ListensAs reports whether two frontends listen on the same, whatever their rules for requests. Both may be nil.
func (f *Frontend) ListensAs(other *Frontend) bool {
	return f == other || f != nil && other != nil && f.opened == other.opened
}

// Rules are those of a server's Gateway.
func (f *Frontend) Rules(s *Server) []*VirtualService { return f.from.rules[s.Gateway] }

// NeedingRules are those of them that need something of listeners by themselves.
func (f *Frontend) NeedingRules(s *Server) []*VirtualService { return f.needing[s.Gateway] }
