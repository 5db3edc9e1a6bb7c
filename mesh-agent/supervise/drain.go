package supervise

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pgmesh/pgmesh/mesh-agent/envoyadmin"
)

const (
	// lookEvery is how often a draining Envoy is asked whether connections are left, if that is quickly done.
	lookEvery = 100 * time.Millisecond

	// idleFor is for how long no request was made on any of the connections that are left, if they end before their time. Whoever was sent an answer
	// while Envoy drained was told to go, so these are kept by clients that had nothing to ask; they open another when they do.
	idleFor = time.Second
)

// Drain tells clients to go elsewhere, without ending Envoy, which still accepts connections. There is no way back but another Envoy.
func (s *Supervisor) Drain(ctx context.Context) error {
	l := s.newest()
	if l == nil {
		return errNotStarted
	}
	// A failed health check makes Envoy ask every client to leave with its next answer. By itself it would ask them one after the
	// other, over the time that it takes for replaced listeners.
	for _, order := range []string{"/healthcheck/fail", "/drain_listeners?graceful"} {
		if err := l.admin.post(ctx, order); err != nil {
			return err
		}
	}
	return nil
}

// drain returns when no connection is left, at the latest after the drain time. Envoy still
// accepts connections meanwhile: applications on this machine may be ending too, and still need their network.
func (s *Supervisor) drain(l *life) {
	ports := s.portsOf(l)
	if err := s.Drain(context.Background()); err != nil {
		s.Log.Warn("Envoy cannot be drained, its connections will be cut", "error", err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), max(s.DrainTime, s.DrainMin))
	defer cancel()
	enough := time.Now().Add(s.DrainMin)
	var quiet quiet
	look := time.NewTimer(lookEvery)
	defer look.Stop()
	for {
		began := time.Now()
		open := s.openOf(ctx, l, ports)
		look.Reset(nextLook(began))
		if time.Now().After(enough) && quiet.over(open) {
			return
		}
		select {
		case <-look.C:
		case <-l.Done():
			return
		case <-s.Hurry:
			s.Log.Warn("asked to end at once: connections are cut", "number", open.Connections)
			return
		case <-ctx.Done():
			if open.Connections > 0 || open.unknown {
				s.Log.Warn("connections are still open at the end of the drain time, they will be cut", "drain", s.DrainTime,
					"number", open.Connections, "connections", listed(connectionsTo(l.Pid, ports)))
			}
			return
		}
	}
}

// nextLook leaves time to others, however long the look took that has begun then: with ten thousand connections that is a tenth of a second. It is
// never far off, or else the end of what is waited for would be seen late.
func nextLook(begun time.Time) time.Duration {
	return min(max(lookEvery, 4*time.Since(begun)), time.Second)
}

// open is what is left of a draining Envoy.
type open struct {
	envoyadmin.Downstream

	unknown bool // Envoy does not say
}

// quiet is since when there were no requests.
type quiet struct{ since time.Time }

// over tells whether nobody needs Envoy any more.
func (q *quiet) over(o open) bool {
	if o.unknown || o.Requests > 0 || o.HTTP < o.Connections {
		q.since = time.Time{}
		return false
	}
	if q.since.IsZero() {
		q.since = time.Now()
	}
	return o.Connections == 0 || time.Since(q.since) >= idleFor
}

// openOf is what Envoy counts, or the kernel, who sees what Envoy may have been told not to count.
func (s *Supervisor) openOf(ctx context.Context, l *life, ports map[uint16]bool) open {
	counted, err := l.admin.downstream(ctx)
	counted.Connections = max(counted.Connections, len(connectionsTo(l.Pid, ports)))
	return open{counted, err != nil}
}

// portsOf are those that clients connect to.
func (s *Supervisor) portsOf(l *life) map[uint16]bool {
	if s.Transparent {
		return nil
	}
	api, _ := l.admin.address()
	return portsOf(l.Pid, api)
}

// end drains and ends all Envoys.
func (s *Supervisor) end() error {
	if s.Ending != nil {
		s.Ending()
	}
	lives := s.living()
	if len(lives) == 0 {
		return s.forgetAll()
	}
	s.Log.Info("ending Envoy", "drain", s.DrainTime)
	if s.DrainTime > 0 || s.DrainMin > 0 {
		s.drain(lives[len(lives)-1])
	}
	var failed error
	for _, l := range slices.Backward(lives) { // an Envoy needs the one that it has replaced
		failed = errors.Join(failed, l.terminate())
	}
	return errors.Join(failed, s.forgetAll())
}

// forgetAll leaves nothing for the next agent to find, when no Envoy is left.
func (s *Supervisor) forgetAll() error {
	s.living()
	s.output.Clear()
	s.forgetBootstraps(nil)
	return errors.Join(remove(filepath.Join(s.Folder, recordFile)), remove(filepath.Join(s.ownFolder(), adminFile)))
}

func remove(path string) error {
	if err := os.Remove(path); !os.IsNotExist(err) {
		return err
	}
	return nil
}

// listed are the first of many.
func listed(all []string) string {
	const some = 20
	words := strings.Join(all[:min(some, len(all))], ", ")
	if len(all) > some {
		words += ", …"
	}
	return words
}
