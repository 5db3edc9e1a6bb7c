// Package upstream keeps the agent's one connection to discovery, at whichever replica answers. All
// calls share it: the proxy's configuration, certificates, and the mesh's trust.
//
// Replicas are tried in random order. A broken connection is replaced at once; while no replica
// answers, attempts back off. When the certificate is renewed, a connection that shows the new one
// is made before the old connection ends.
package upstream

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	"github.com/pgmesh/pgmesh/internal/kit/retry"
)

const (
	// stableAfter is how long a connection has to last for the pauses to start over.
	stableAfter = 5 * time.Second

	// drainTime is how long calls may take to finish on a connection with an old certificate.
	drainTime = 5 * time.Second
)

// Options say where discovery is and how to connect to it.
type Options struct {
	// Addresses are those of discovery's replicas, as host:port. A name may resolve to several.
	Addresses []string
	// Credentials are those of this machine; Insecure are some, too.
	Credentials *Credentials
	Log         *slog.Logger
	// Metrics registers the metrics, unless it is nil.
	Metrics prometheus.Registerer
}

// Upstream is the connection. Without one, calls fail once every replica was tried, unless they use
// grpc.WaitForReady: those wait until their contexts end.
type Upstream struct {
	options  Options
	log      *slog.Logger
	metrics  *metrics
	replicas *replicas
	end      context.CancelFunc
	ended    sync.WaitGroup

	mu         sync.Mutex
	current    *link              // carries new calls; nil while there is none
	links      map[*link]struct{} // current, and those on which only old calls continue
	status     Status
	connectErr error         // why the last round failed; nil once connected
	changed    chan struct{} // closed and replaced when any of the fields above changes
	again      chan struct{} // closed and replaced when what was refused may be let in
	wanted     chan struct{} // has an element when a call waits for a connection
}

var _ grpc.ClientConnInterface = (*Upstream)(nil)

// Dial starts to connect in the background. It returns an error only for an invalid address.
func Dial(o Options) (*Upstream, error) {
	if err := checkAddresses(o.Addresses); err != nil {
		return nil, err
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	ctx, end := context.WithCancel(context.Background())
	u := &Upstream{
		options: o, log: o.Log, metrics: newMetrics(o.Metrics), replicas: newReplicas(o.Addresses), end: end,
		links: map[*link]struct{}{}, status: Status{Since: time.Now()}, changed: make(chan struct{}), again: make(chan struct{}), wanted: make(chan struct{}, 1),
	}
	u.ended.Go(func() { u.run(ctx) })
	return u, nil
}

// Close closes the connection, ends all calls, and waits for the goroutines.
func (u *Upstream) Close() {
	u.end()
	u.ended.Wait()
}

// run keeps a connection until the context ends.
func (u *Upstream) run(ctx context.Context) {
	defer u.closeAll()
	_ = retry.Loop{Pauses: betweenRounds}.Forever(ctx, func(func()) error {
		l, err := u.connect(ctx)
		if err != nil {
			if ctx.Err() == nil {
				u.connectFailed(err)
			}
			return err
		}
		u.use(l)
		began := time.Now()
		u.awaitReplacement(ctx, l)
		if time.Since(began) < stableAfter {
			return errUnstable
		}
		return retry.ErrAtOnce
	})
}

// betweenRounds are the pauses between rounds in which no replica answered. The longest bounds how
// late the mesh's proxies come back.
var betweenRounds = retry.Pauses{First: 100 * time.Millisecond, Longest: 5 * time.Second, Growth: 2}

var errUnstable = errors.New("the connection did not last")

// awaitReplacement returns when a link needs a replacement.
func (u *Upstream) awaitReplacement(ctx context.Context, l *link) {
	select {
	case <-l.outdated:
		u.replace(l)
	case <-l.lost:
		u.replicas.failed(l.target)
		u.awaitNeed(ctx)
	case <-ctx.Done():
	}
}

// awaitNeed waits until another connection is needed. A discovery that asks its clients to
// reconnect from time to time lets open streams continue; while only those exist, nothing needs a
// new connection.
func (u *Upstream) awaitNeed(ctx context.Context) {
	for {
		u.mu.Lock()
		serving, changed := u.serving(), u.changed
		u.mu.Unlock()
		if !serving {
			return
		}
		select {
		case <-changed:
		case <-u.wanted:
			return
		case <-ctx.Done():
			return
		}
	}
}

// use directs new calls to a link, and retires those with an old certificate.
func (u *Upstream) use(l *link) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for before := range u.links {
		if before.stale && !before.retired {
			before.retire(drainTime)
		}
	}
	u.metrics.connected(!u.status.First.IsZero())
	level := slog.LevelInfo
	if u.status.Connected && u.status.Address == l.target.String() {
		level = slog.LevelDebug // a reconnect to the same replica, which discovery asks for from time to time
	}
	select {
	case <-u.wanted: // whoever waited now has one
	default:
	}
	u.current, u.connectErr, u.links[l] = l, nil, struct{}{}
	u.status.connected(l)
	u.retry()
	u.notify()
	u.log.Log(context.Background(), level, "connected to discovery", "address", l.target.String(), "discovery", l.name)
	u.ended.Go(l.watch)
	u.ended.Go(func() {
		<-l.lost
		u.stopUsing(l)
		<-l.closed
		u.remove(l)
	})
}

// replace makes new calls wait for the next connection, so that they show the newest certificate.
func (u *Upstream) replace(l *link) {
	u.mu.Lock()
	l.stale = true
	u.setRevoked(nil) // that was of the old certificate
	u.mu.Unlock()
	u.stopUsing(l)
}

// resume directs new calls to a stale link again when it could not be replaced. The caller holds
// u.mu.
func (u *Upstream) resume() {
	for l := range u.links {
		if l.stale && !l.retired && !l.isLost() {
			u.current = l
		}
	}
}

// stopUsing directs new calls away from a link.
func (u *Upstream) stopUsing(l *link) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.current == l {
		u.current = nil
		u.notify()
	}
}

// remove forgets a closed link, and reports the loss if it was the last in use.
func (u *Upstream) remove(l *link) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.links, l)
	if l.retired || !u.status.Connected || u.serving() {
		return
	}
	u.status.disconnected(l.reason())
	u.metrics.disconnected()
	u.notify()
	u.log.Warn("the connection to discovery has ended; another is made", "error", u.status.Error)
}

// serving reports whether any link is in use that is not about to close. The caller holds u.mu.
func (u *Upstream) serving() bool {
	for l := range u.links {
		if !l.retired {
			return true
		}
	}
	return false
}

func (u *Upstream) closeAll() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for l := range u.links {
		l.retired = true // so that remove reports no loss
		l.close()
	}
}

// connectFailed records why a round failed, and logs the error if it is not the same as before.
func (u *Upstream) connectFailed(err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	before := u.connectErr
	u.connectErr = err
	u.resume()
	u.status.Error, u.status.ErrorAt = err, time.Now()
	u.metrics.connectFailed()
	u.notify()
	if before == nil || before.Error() != err.Error() {
		u.log.Warn("no connection to discovery; it is tried again and again", "error", err)
	}
}

// notify wakes those who wait for a change. The caller holds u.mu.
func (u *Upstream) notify() {
	close(u.changed)
	u.changed = make(chan struct{})
}
