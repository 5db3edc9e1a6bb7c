package supervise

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"
)

// predecessor is the Envoy that serves while another gets ready to take its place, nil if there is none.
func (s *Supervisor) predecessor(l *life) *life {
	if l.served.Load() || !l.Hot || l.Epoch == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, other := range s.lives {
		if other.BaseID == l.BaseID && other.Epoch == l.Epoch-1 && !other.hasEnded() {
			return other
		}
	}
	return nil
}

// replace has an Envoy as it is wanted take the place of the one that runs: without a pause, if that can be.
func (s *Supervisor) replace(ctx context.Context, want record) error {
	newest := s.newest()
	if err := errors.Join(s.writeBootstrap(want), s.validate(ctx, want)); err != nil {
		return fmt.Errorf("the Envoy that runs, process %d, goes on with what it was started with: %w", newest.Pid, err)
	}
	parent := newest
	if err := newest.ready(ctx); err != nil {
		// It serves nobody: the one before it does, if there is one.
		parent = s.predecessor(newest)
		s.Log.Info("an Envoy that was not ready yet makes way for another", "pid", newest.Pid)
		newest.kill()
	}
	if parent == nil {
		return s.startCold(want)
	}
	if err := s.canFollow(ctx, parent, want); err != nil {
		s.Log.Warn("another Envoy is wanted, and takes the place of the one that runs with a pause", "pid", parent.Pid, "error", err)
		s.drain(parent)
		if err := parent.terminate(); err != nil {
			s.Log.Warn(err.Error())
		}
		return s.startCold(want)
	}
	s.Log.Info("another Envoy is wanted, and takes the place of the one that runs", "pid", parent.Pid)
	return s.startHot(ctx, want, parent)
}

// canFollow says why an Envoy cannot take the place of another without a pause.
func (s *Supervisor) canFollow(ctx context.Context, parent *life, want record) error {
	if !parent.Hot || s.Tied {
		return errors.New("hot restart is off for it")
	}
	if parent.Account != want.Account {
		return errors.New("it runs under another account")
	}
	if err := cannotHotRestart(); err != nil {
		return err
	}
	if parent.Image == want.Image && parent.Program == want.Program {
		return nil
	}
	old, err := compatibility(ctx, imageOf(parent.Pid))
	if err != nil {
		return err
	}
	fresh, err := compatibility(ctx, want.Program)
	if err != nil {
		return err
	}
	if old != fresh {
		return fmt.Errorf("hot restart of %s does not fit that of the running Envoy: %s and %s", want.Program, fresh, old)
	}
	return nil
}

// maxEpochs is how many Envoys of one base id can live at the same time: each has the remainder of its epoch in the names of its sockets.
const maxEpochs = 3

// startHot starts the Envoy that takes the place of another.
func (s *Supervisor) startHot(ctx context.Context, r record, parent *life) error {
	for s.epochsOf(parent.BaseID) >= maxEpochs {
		if !s.rest(ctx, lookEvery) {
			return nil
		}
	}
	if err := allowAnother(parent.BaseID); err != nil {
		s.Log.Warn("Envoy may refuse to start beside another", "error", err)
	}
	r.Hot, r.BaseID, r.Epoch = true, parent.BaseID, parent.Epoch+1
	l, err := s.launch(r, s.living())
	if err != nil {
		return err
	}
	s.started(l)
	s.retireAll()
	return nil
}

// retireAll ends Envoys that were replaced, each when it has no connection left.
func (s *Supervisor) retireAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.lives[:max(0, len(s.lives)-1)] {
		if !l.retiring {
			l.retiring = true
			s.retiring.Go(func() { s.retire(l) })
		}
	}
}

// retire waits for the end of an Envoy whose place another takes, and says which connections have ended with it. It is the other that ends it:
// it speaks with its parent until then, and one that finds its parent gone before that crashes (1.40).
func (s *Supervisor) retire(old *life) {
	look := time.NewTimer(lookEvery)
	defer look.Stop()
	ports := s.portsOf(old) // unless it has handed them over already
	var open sighting
	var late <-chan time.Time // once it is replaced
	for !old.hasEnded() {
		select {
		case <-look.C:
			began := time.Now()
			open.add(connectionsTo(old.Pid, ports))
			look.Reset(nextLook(began))
			if late != nil {
				break
			}
			if successor := s.successor(old); successor != nil {
				late = time.After(s.parentShutdown() + 2*terminateWithin)
				maps.Copy(ports, s.portsOf(successor))
			}
		case <-late:
			s.Log.Warn("an Envoy that was replaced has not ended, and is ended", "pid", old.Pid)
			if err := old.terminate(); err != nil {
				s.Log.Warn(err.Error())
			}
		case <-old.Done():
		case <-s.ended:
			return
		}
	}
	if late == nil && s.successor(old) == nil {
		return // it died before
	}
	if cut := open.lately(); len(cut) > 0 {
		s.Log.Warn("connections were cut that went over an Envoy which was replaced", "pid", old.Pid, "number", len(cut), "connections", listed(cut))
	}
	s.Log.Info("an Envoy that was replaced has ended", "pid", old.Pid)
	s.living()
}

// sighting is what connections there were when some were there for the last time. An Envoy that ends closes them first, and may be seen once more
// without any.
type sighting struct {
	connections []string
	at          time.Time
}

func (s *sighting) add(connections []string) {
	if len(connections) > 0 {
		s.connections, s.at = connections, time.Now()
	}
}

// lately are those that an Envoy which has just ended has cut.
func (s *sighting) lately() []string {
	if time.Since(s.at) > terminateWithin {
		return nil
	}
	return s.connections
}

// successor is the Envoy that has taken the place of another, nil while there is none. A question that still went to the other is never answered, once
// that has given up its admin API.
func (s *Supervisor) successor(old *life) *life {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if newest := s.newest(); newest != old && newest.ready(ctx) == nil {
		return newest
	}
	return nil
}

func (s *Supervisor) parentShutdown() time.Duration {
	if s.ParentShutdown == 0 {
		return defaultParentShutdown
	}
	return s.ParentShutdown
}

// epochsOf is how many Envoys of a base id live.
func (s *Supervisor) epochsOf(baseID uint32) (n int) {
	for _, l := range s.living() {
		if l.BaseID == baseID {
			n++
		}
	}
	return n
}
