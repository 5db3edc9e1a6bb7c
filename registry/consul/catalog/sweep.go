package catalog

import (
	"sync/atomic"
	"time"
)

// sweep looks through all that is not watched, for what has changed: service by service, or node by
// node where there are fewer of them. It goes round and round: what changes while it looks has it go on
// for one more round from where it is. After two rounds without a rest it is tired, and looks half of the
// time.
type sweep struct {
	wanted bool // something has changed while everything was read at first
	round  int  // counts rounds: what an earlier one has begun to look at may have been too early
	left   int  // how many are to be looked at in this round
	looked int  // how many were, since it has rested
	tired  atomic.Bool
	// begun and ended are when it began to look last, and when it had nothing left.
	begun, ended time.Time
}

// want begins a round.
func (w *sweep) want(s *session) {
	if w.wanted = s.unread > 0; w.wanted {
		return
	}
	w.round++
	all := s.toLookAt(w.round)
	if w.left == 0 {
		w.rested()
	}
	w.left = len(all)
	w.tired.Store(w.looked > len(all))
	s.queue.readLater(all)
}

// rested counts anew if the rest was as long as what was before it.
func (w *sweep) rested() {
	if time.Since(w.ended) >= w.ended.Sub(w.begun) {
		w.looked = 0
	}
	w.begun = time.Now()
}

// begin does what was wanted before.
func (w *sweep) begin(s *session) {
	if w.wanted {
		w.want(s)
	}
}

// toLookAt are the nodes, or if there are fewer of them the services that are not watched.
func (s *session) toLookAt(round int) []reading {
	var all []reading
	if len(s.nodes) < len(s.names)-len(s.watches.running) {
		all = s.byNode()
	} else {
		all = s.watches.byChange()
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
		w.ended = time.Now()
	}
}
