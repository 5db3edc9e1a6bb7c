package catalog

import "sync/atomic"

// sweep looks through all that is not watched, for what has changed: service by service, or node by
// node where there are fewer of them. It goes round and round: what changes while it looks makes it go
// on for one more round from where it is. If that does not end, it looks half of the time.
type sweep struct {
	wanted bool // something has changed while everything was read at first
	round  int  // counts rounds: what an earlier one has begun to look at may have been too early
	left   int  // how many are to be looked at in this round
	looked int  // how many were, in rounds that did not end
	tired  atomic.Bool
}

// want begins a round.
func (w *sweep) want(s *session) {
	if w.wanted = s.unread > 0; w.wanted {
		return
	}
	w.round++
	all := s.toLookAt(w.round)
	w.left = len(all)
	w.tired.Store(w.looked > len(all))
	s.queue.readLater(all)
}

// begin does what was wanted before.
func (w *sweep) begin(s *session) {
	if w.wanted {
		w.want(s)
	}
}

// toLookAt are the nodes, or if there are fewer of them the services that are not watched.
func (s *session) toLookAt(round int) []reading {
	all := s.watches.byChange()
	if len(s.nodes) < len(all) {
		all = s.byNode()
	}
	for i := range all {
		all[i].round = round
	}
	return all
}

// lookedAt is called for each that was looked at in a round.
func (w *sweep) lookedAt(round int) {
	if w.looked++; round != w.round {
		return
	}
	if w.left--; w.left == 0 {
		w.looked = 0
		w.tired.Store(false)
	}
}
