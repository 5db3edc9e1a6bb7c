package supervise

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pgmesh/pgmesh/mesh-agent/envoy/envoyadmin"
)

const (
	// pollInterval is how often a draining Envoy is polled, if polling is quick.
	pollInterval = 100 * time.Millisecond

	// idleTimeout ends a drain early: for so long there was no request on any remaining connection.
	// Each client that got an answer during the drain was told to close, so these connections
	// belong to clients with nothing to ask; they reconnect when they need to.
	idleTimeout = time.Second
)

// Drain has Envoy ask every client to leave with its next answer. It still accepts connections and
// serves them. So does each Envoy that is started after it, until Undrain.
func (s *Supervisor) Drain(ctx context.Context) error { return s.setDraining(ctx, true) }

// Undrain takes Drain back.
func (s *Supervisor) Undrain(ctx context.Context) error { return s.setDraining(ctx, false) }

func (s *Supervisor) setDraining(ctx context.Context, draining bool) error {
	s.orders.Lock()
	defer s.orders.Unlock()
	all := s.running()
	if len(all) == 0 {
		return errNotStarted
	}
	var err error // of the newest alone: those before it are about to end
	for _, l := range all {
		err = l.sendAway(ctx, draining)
	}
	if err == nil {
		s.draining = draining
	}
	return err
}

// StartDraining has the Envoys that Run starts or adopts drain, as those of the agent before did.
// Call it before Run.
func (s *Supervisor) StartDraining() { s.draining = true }

// sendAway has Envoy send its clients away, or keep them again. The order /drain_listeners would
// close its listeners after --listener-drain-time, also for the applications on this machine, and
// could not be taken back.
func (l *instance) sendAway(ctx context.Context, away bool) error {
	if away {
		return l.admin.post(ctx, "/healthcheck/fail")
	}
	return l.admin.post(ctx, "/healthcheck/ok")
}

// followDraining has an Envoy that was started drain if the one before it did. One that was adopted
// may drain although nobody wants that any more.
func (s *Supervisor) followDraining(l *instance) {
	s.retiring.Go(func() {
		poll := time.NewTicker(pollInterval)
		defer poll.Stop()
		for s.repeatOrder(l) != nil {
			select {
			case <-poll.C:
			case <-l.Done():
				return
			case <-s.ended:
				return
			}
		}
	})
}

// repeatOrder tells an Envoy what was ordered of the one before it.
func (s *Supervisor) repeatOrder(l *instance) error {
	s.orders.Lock()
	defer s.orders.Unlock()
	if !s.draining && !l.adopted {
		return nil // it serves by itself
	}
	return l.sendAway(context.Background(), s.draining)
}

// drain waits until no connection is left, at most for the drain time. Envoy accepts connections
// meanwhile: applications on this machine may be ending too, and still need their network.
func (s *Supervisor) drain(l *instance) {
	ports := s.portsOf(l)
	if err := l.sendAway(context.Background(), true); err != nil {
		s.Log.Warn("Envoy cannot be drained; its connections will be cut", "error", err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), max(s.DrainTime, s.DrainMin))
	defer cancel()
	earliest := time.Now().Add(s.DrainMin)
	var idle idleTimer
	poll := time.NewTimer(pollInterval)
	defer poll.Stop()
	for {
		began := time.Now()
		open := s.remainingOf(ctx, l, ports)
		poll.Reset(nextPoll(began))
		if time.Now().After(earliest) && idle.drained(open) {
			return
		}
		select {
		case <-poll.C:
		case <-l.Done():
			return
		case <-s.EndNow:
			s.Log.Warn("asked to end at once: connections are cut", "number", open.Connections)
			return
		case <-ctx.Done():
			if open.Connections > 0 || open.unknown {
				s.Log.Warn("connections are still open at the end of the drain time, they will be cut", "drain", s.DrainTime,
					"number", open.Connections, "connections", firstOf(connectionsTo(l.Pid, ports)))
			}
			return
		}
	}
}

// nextPoll returns the pause until the next poll: at least four times as long as the last poll
// took, because one takes a tenth of a second with ten thousand connections; at most a second, so
// that the end is noticed soon.
func nextPoll(started time.Time) time.Duration {
	return min(max(pollInterval, 4*time.Since(started)), time.Second)
}

// remaining is what is left of a draining Envoy.
type remaining struct {
	envoyadmin.Downstream

	unknown bool // Envoy did not answer
}

// idleTimer measures how long there were no requests.
type idleTimer struct{ since time.Time }

// drained reports whether Envoy can end: without connections, or with only idle HTTP ones.
func (q *idleTimer) drained(o remaining) bool {
	if o.unknown || o.Requests > 0 || o.HTTP < o.Connections {
		q.since = time.Time{}
		return false
	}
	if q.since.IsZero() {
		q.since = time.Now()
	}
	return o.Connections == 0 || time.Since(q.since) >= idleTimeout
}

// remainingOf combines Envoy's counts with the kernel's. Envoy's statistics may be configured to
// leave connections out; the kernel sees all.
func (s *Supervisor) remainingOf(ctx context.Context, l *instance, ports map[uint16]bool) remaining {
	counted, err := l.admin.downstream(ctx)
	counted.Connections = max(counted.Connections, len(connectionsTo(l.Pid, ports)))
	return remaining{counted, err != nil}
}

// portsOf returns the ports that clients connect to. With transparent redirection it returns none,
// as clients then connect to other addresses.
func (s *Supervisor) portsOf(l *instance) map[uint16]bool {
	if s.Transparent {
		return nil
	}
	api, _ := l.admin.address()
	return portsOf(l.Pid, api)
}

// shutdown drains and ends all Envoys.
func (s *Supervisor) shutdown() error {
	if s.BeforeDrain != nil {
		s.BeforeDrain()
	}
	instances := s.running()
	if len(instances) == 0 {
		return s.clearState()
	}
	s.Log.Info("ending Envoy", "drain", s.DrainTime)
	if s.DrainTime > 0 || s.DrainMin > 0 {
		s.drain(instances[len(instances)-1])
	}
	var failed error
	for _, l := range slices.Backward(instances) { // a parent must not end before its child
		failed = errors.Join(failed, l.terminate())
	}
	return errors.Join(failed, s.clearState())
}

// clearState removes what the next agent would look for, once no Envoy is left.
func (s *Supervisor) clearState() error {
	s.running()
	s.output.Clear()
	s.removeBootstraps(nil)
	return errors.Join(remove(filepath.Join(s.Folder, recordFile)), remove(filepath.Join(s.ownFolder(), adminFile)))
}

func remove(path string) error {
	if err := os.Remove(path); !os.IsNotExist(err) {
		return err
	}
	return nil
}

// firstOf lists at most 20 elements.
func firstOf(all []string) string {
	const some = 20
	words := strings.Join(all[:min(some, len(all))], ", ")
	if len(all) > some {
		words += ", …"
	}
	return words
}
