package supervise

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"
)

// predecessor returns the Envoy that serves until l is ready to replace it, or nil.
func (s *Supervisor) predecessor(l *instance) *instance {
	if l.wasReady.Load() || !l.Hot || l.Epoch == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, other := range s.instances {
		if other.BaseID == l.BaseID && other.Epoch == l.Epoch-1 && !other.hasEnded() {
			return other
		}
	}
	return nil
}

// replace starts the desired Envoy in place of the running one, without a pause if possible.
func (s *Supervisor) replace(ctx context.Context, want record) error {
	newest := s.newest()
	if err := errors.Join(s.writeBootstrap(want), s.validate(ctx, want)); err != nil {
		return fmt.Errorf("the Envoy that runs, process %d, goes on with what it was started with: %w", newest.Pid, err)
	}
	parent := newest
	if !newest.serves(ctx) {
		// It serves nobody; its predecessor does, if there is one.
		parent = s.predecessor(newest)
		s.Log.Info("an Envoy that was not ready yet makes way for another", "pid", newest.Pid)
		newest.kill()
	}
	if parent == nil {
		return s.startCold(want)
	}
	if err := s.checkHandover(ctx, parent, want); err != nil {
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

// checkHandover returns an error if an Envoy cannot replace another without a pause.
func (s *Supervisor) checkHandover(ctx context.Context, parent *instance, want record) error {
	if !parent.Hot || s.Tied {
		return errors.New("hot restart is off for it")
	}
	if parent.Account != want.Account {
		return errors.New("it runs under another account")
	}
	if err := checkHotRestart(); err != nil {
		return err
	}
	if parent.Image == want.Image && parent.Program == want.Program {
		return nil
	}
	old, err := hotRestartVersion(ctx, imageOf(parent.Pid))
	if err != nil {
		return err
	}
	fresh, err := hotRestartVersion(ctx, want.Program)
	if err != nil {
		return err
	}
	if old != fresh {
		return fmt.Errorf("hot restart of %s does not fit that of the running Envoy: %s and %s", want.Program, fresh, old)
	}
	return nil
}

// maxEpochs is how many Envoys of one base ID can live at the same time: the names of their sockets
// contain the epoch modulo 3.
const maxEpochs = 3

// startHot starts the Envoy that replaces another by hot restart.
func (s *Supervisor) startHot(ctx context.Context, r record, parent *instance) error {
	for s.epochsOf(parent.BaseID) >= maxEpochs {
		if !s.sleep(ctx, pollInterval) {
			return nil
		}
	}
	if err := clearStartingFlag(parent.BaseID); err != nil {
		s.Log.Warn("Envoy may refuse to start beside another", "error", err)
	}
	r.Hot, r.BaseID, r.Epoch = true, parent.BaseID, parent.Epoch+1
	l, err := s.launch(r, s.running())
	if err != nil {
		return err
	}
	s.started(l)
	s.retireAll()
	return nil
}

// retireAll starts a goroutine for each replaced Envoy that waits for its end.
func (s *Supervisor) retireAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.instances[:max(0, len(s.instances)-1)] {
		if !l.retiring {
			l.retiring = true
			s.retiring.Go(func() { s.retire(l) })
		}
	}
}

// retire waits for the end of a replaced Envoy, and logs the connections that ended with it. Its
// successor ends it: the two communicate until then, and a successor whose parent is gone too early
// crashes (1.40).
func (s *Supervisor) retire(old *instance) {
	poll := time.NewTimer(pollInterval)
	defer poll.Stop()
	ports := s.portsOf(old) // empty if they were handed over already
	var open lastConnections
	var overdue <-chan time.Time // set once it is replaced
	for !old.hasEnded() {
		select {
		case <-poll.C:
			began := time.Now()
			open.add(connectionsTo(old.Pid, ports))
			poll.Reset(nextPoll(began))
			if overdue != nil {
				break
			}
			if successor := s.successor(old); successor != nil {
				overdue = time.After(s.parentShutdown() + 2*terminateTimeout)
				maps.Copy(ports, s.portsOf(successor))
			}
		case <-overdue:
			s.Log.Warn("an Envoy that was replaced has not ended, and is ended", "pid", old.Pid)
			if err := old.terminate(); err != nil {
				s.Log.Warn(err.Error())
			}
		case <-old.Done():
		case <-s.ended:
			return
		}
	}
	if overdue == nil && s.successor(old) == nil {
		return // it died before it was replaced
	}
	if cut := open.recent(); len(cut) > 0 {
		s.Log.Warn("connections were cut that went over an Envoy which was replaced", "pid", old.Pid, "number", len(cut), "connections", firstOf(cut))
	}
	s.Log.Info("an Envoy that was replaced has ended", "pid", old.Pid)
	s.running()
}

// lastConnections are the connections at the last poll that found any. An Envoy that ends closes
// them first, so one more poll may find none.
type lastConnections struct {
	connections []string
	at          time.Time
}

func (s *lastConnections) add(connections []string) {
	if len(connections) > 0 {
		s.connections, s.at = connections, time.Now()
	}
}

// recent returns the connections that an Envoy which just ended has cut.
func (s *lastConnections) recent() []string {
	if time.Since(s.at) > terminateTimeout {
		return nil
	}
	return s.connections
}

// successor returns the Envoy that has replaced another, or nil. The timeout matters: once the old
// Envoy gives up its admin API, a request that still reached it is never answered.
func (s *Supervisor) successor(old *instance) *instance {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	newest := s.newest() // nil once all have ended, the old one with them
	if newest == nil || newest == old || !newest.serves(ctx) {
		return nil
	}
	return newest
}

func (s *Supervisor) parentShutdown() time.Duration {
	if s.ParentShutdown == 0 {
		return defaultParentShutdown
	}
	return s.ParentShutdown
}

// epochsOf counts the running Envoys of a base ID.
func (s *Supervisor) epochsOf(baseID uint32) (n int) {
	for _, l := range s.running() {
		if l.BaseID == baseID {
			n++
		}
	}
	return n
}
