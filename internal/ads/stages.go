package ads

import (
	"cmp"
)

// advance sends what may be sent now. When a change is complete it continues with the newest
// snapshot.
func (s *Stream) advance() error {
	if s.view.Snapshot() == nil {
		return nil // hold requests until there is a snapshot
	}
	for {
		s.aim()
		s.startReconnect()
		if err := s.flush(); err != nil {
			return err
		}
		if s.progress == nil {
			s.news = nil // later requests are not part of the change
			s.moved()
			s.noteRunning()
			return nil
		}
		if !s.nextStage() {
			s.moved()
			return nil
		}
	}
}

// aim makes the newest snapshot the target, unless a change is under way. While a client is still
// naming what it has from an earlier stream, the target may still be replaced. The first snapshot
// for a client that has nothing needs no order, and is no news.
func (s *Stream) aim() {
	if s.target != nil && (s.progress != nil && !s.reconnecting() || s.target == s.view.Snapshot()) {
		return
	}
	first, oldest := s.target == nil, s.news
	if s.target, s.news = s.view.Take(); first {
		s.news = nil
	} else if s.progress != nil {
		s.news = cmp.Or(oldest, s.news)
	} else if s.planned() {
		s.begin()
	}
	s.moved()
	for _, sub := range s.subs {
		sub.aim(s.target)
	}
}

// begin starts the plan for a change.
func (s *Stream) begin() {
	s.progress, s.over = s.cfg.Plan.start(s.cfg.Patience, s.over), nil
}

// moved publishes the stream's revision and stage, before the stream may block there.
func (s *Stream) moved() {
	stage := 0
	if s.progress != nil {
		stage = s.progress.stage + 1
	}
	if s.target != s.reported || stage != s.reportedStage {
		s.reported, s.reportedStage = s.target, stage
		s.status.move(s.target, stage, len(s.cfg.Plan.Stages))
	}
}

// planned reports whether this stream's changes follow the plan.
func (s *Stream) planned() bool {
	if len(s.cfg.Plan.Stages) == 0 {
		return false
	}
	if s.cfg.Plan.When == "" {
		return true
	}
	for _, sub := range s.subs {
		if sub.canonical == s.cfg.Plan.When {
			return true
		}
	}
	return false
}

// allowed returns how much of a type's change may be sent now.
func (s *Stream) allowed(sub *subscription) extent {
	if s.progress == nil {
		return everything
	}
	return sub.typePlan.extents[s.progress.stage]
}

// nextStage moves to the next stage if the current one is done, and ends the plan after the last.
func (s *Stream) nextStage() bool {
	if !s.stageDone() {
		return false
	}
	if s.progress.stage == len(s.cfg.Plan.Stages)-1 {
		s.progress.stop()
		s.progress, s.over = nil, s.progress
	} else {
		s.progress.next(s.cfg.Patience, func(x expectation) bool { return !s.due(x) })
	}
	return true
}

// stageDone reports whether everything of the present stage was sent and answered, and whether the
// client has asked for what it refers to.
func (s *Stream) stageDone() bool {
	if s.progress.impatient {
		s.hurried = true
		return true
	}
	stage := s.progress.stage
	for _, sub := range s.subs {
		if !sub.typePlan.in[stage] {
			continue
		}
		if !sub.settled(s.allowed(sub)) {
			return false
		}
		if s.awaits(sub) && !s.cfg.Plan.Stages[stage].Overlap {
			return false
		}
	}
	return s.complete() && len(s.missing()) == 0
}

// awaits reports whether the present stage needs the client's answer about a type.
func (s *Stream) awaits(sub *subscription) bool {
	return sub.pending != "" && (s.progress == nil || s.progress.warming || !sub.typePlan.atOnce[s.progress.stage])
}

func (s *Stream) waitingFor() []string {
	var types []string
	for _, sub := range s.subs {
		if sub.pending != "" {
			types = append(types, sub.typeURL)
		}
	}
	for _, x := range s.progress.expected {
		types = append(types, x.ref.TypeURL+" "+x.ref.Name)
	}
	return append(types, s.missing()...)
}
