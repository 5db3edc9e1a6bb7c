// Package upstream is the one connection that an agent has to a discovery, whichever of several answers. Everything that asks discovery
// something asks over it: the proxy's configuration, certificates, what the mesh trusts.
//
// The replicas are tried in a random order. When a connection breaks, another is made at once; while none can be, with growing pauses. A
// newer certificate is shown by another connection, which is there before the one with the old certificate ends.
package upstream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
)

const (
	// The pauses before the replicas are tried again of which none has answered. Each proxy of a mesh comes back within the last.
	firstPause = 100 * time.Millisecond
	lastPause  = 5 * time.Second

	// settled is how long a connection lasts after which the next one that breaks is another matter.
	settled = 5 * time.Second

	// linger is how long calls may take to finish on a connection whose certificate is not the newest any more.
	linger = 5 * time.Second
)

// Options say where discovery is, and how it is spoken to.
type Options struct {
	// Addresses are those of discovery's replicas, host:port. A name may stand for several.
	Addresses []string
	// Credentials are nil for plaintext.
	Credentials *Credentials
	Log         *slog.Logger
	// Metrics are registered here, unless it is nil.
	Metrics prometheus.Registerer
}

// Upstream is the connection. Calls that find none fail once every replica was tried, unless they wait (grpc.WaitForReady): those wait for
// as long as their contexts last.
type Upstream struct {
	options  Options
	log      *slog.Logger
	metrics  *metrics
	replicas *replicas
	end      context.CancelFunc
	ended    sync.WaitGroup

	mu      sync.Mutex
	current *link              // what calls begin on; nil while there is none
	links   map[*link]struct{} // it, and those that take no new calls and on which some go on
	status  Status
	failed  error         // why no replica could be connected to, since that is so
	changed chan struct{} // closed when any of these is another
	wanted  chan struct{} // has one element when somebody waits for a connection
}

var _ grpc.ClientConnInterface = (*Upstream)(nil)

// Dial begins to connect. The error is one of an address that is none.
func Dial(o Options) (*Upstream, error) {
	if err := CheckAddresses(o.Addresses); err != nil {
		return nil, err
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	ctx, end := context.WithCancel(context.Background())
	u := &Upstream{
		options: o, log: o.Log, metrics: newMetrics(o.Metrics), replicas: newReplicas(o.Addresses), end: end,
		links: map[*link]struct{}{}, status: Status{Since: time.Now()}, changed: make(chan struct{}), wanted: make(chan struct{}, 1),
	}
	u.ended.Go(func() { u.run(ctx) })
	return u, nil
}

// CheckAddresses says what is wrong with addresses of discovery.
func CheckAddresses(addresses []string) error {
	if len(addresses) == 0 {
		return errors.New("no address of discovery is given")
	}
	for _, address := range addresses {
		if host, port, err := net.SplitHostPort(address); err != nil || host == "" || port == "" {
			return fmt.Errorf("discovery is to be at %q, which is not host:port", address)
		}
	}
	return nil
}

// Close ends the connection, and with it all calls.
func (u *Upstream) Close() {
	u.end()
	u.ended.Wait()
}

// run has a connection whenever there can be one.
func (u *Upstream) run(ctx context.Context) {
	pauses := backoff.NewExponentialBackOff()
	pauses.InitialInterval, pauses.MaxInterval, pauses.Multiplier = firstPause, lastPause, 2
	for {
		l, err := u.connect(ctx)
		switch {
		case err == nil:
			u.use(l)
			began := time.Now()
			u.keep(ctx, l)
			if time.Since(began) < settled {
				break
			}
			pauses.Reset()
			continue
		case ctx.Err() == nil:
			u.missed(err)
		}
		select {
		case <-time.After(pauses.NextBackOff()):
		case <-ctx.Done():
			u.closeAll()
			return
		}
	}
}

// keep returns when another connection is needed in the place of one.
func (u *Upstream) keep(ctx context.Context, l *link) {
	select {
	case <-l.dated:
		u.replace(l)
	case <-l.lost:
		u.replicas.fell(l.target)
		u.await(ctx)
	case <-ctx.Done():
	}
}

// await waits until there is use for another connection. A discovery that wants its clients to connect anew now and then lets go on what has
// begun, and as long as that is all there is no need for another.
func (u *Upstream) await(ctx context.Context) {
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

// use has calls begin on a connection from now on. Those that have begun on the one before may take a moment to finish.
func (u *Upstream) use(l *link) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for before := range u.links {
		if before.old && !before.retired {
			before.retire(linger)
		}
	}
	u.metrics.connected(!u.status.First.IsZero())
	level := slog.LevelInfo
	if u.status.Connected && u.status.Address == l.target.String() {
		level = slog.LevelDebug // to the same again, as discoveries ask for now and then
	}
	select {
	case <-u.wanted: // whoever it was has it
	default:
	}
	u.current, u.failed, u.links[l] = l, nil, struct{}{}
	u.status.connected(l)
	u.tell()
	u.log.Log(context.Background(), level, "connected to discovery", "address", l.target.String(), "discovery", l.name)
	u.ended.Go(l.watch)
	u.ended.Go(func() {
		<-l.lost
		u.leave(l)
		<-l.closed
		u.drop(l)
	})
}

// replace has calls wait for the connection that takes the place of one, so that they show the newest certificate.
func (u *Upstream) replace(l *link) {
	u.mu.Lock()
	l.old = true
	u.mu.Unlock()
	u.leave(l)
}

// resume has calls begin on a connection again in whose place there is none.
func (u *Upstream) resume() {
	for l := range u.links {
		if l.old && !l.retired && !l.isLost() {
			u.current = l
		}
	}
}

// leave has calls begin on a connection no more.
func (u *Upstream) leave(l *link) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.current == l {
		u.current = nil
		u.tell()
	}
}

// drop forgets a connection that is no more.
func (u *Upstream) drop(l *link) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.links, l)
	if l.retired || !u.status.Connected || u.serving() {
		return
	}
	u.status.away(l.reason())
	u.metrics.away()
	u.tell()
	u.log.Warn("the connection to discovery has ended; another is made", "error", u.status.Error)
}

// serving tells whether anything goes over a connection that is not to end anyway.
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
		l.retired = true // in good order
		l.close()
	}
}

// missed takes down why no replica could be connected to.
func (u *Upstream) missed(err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	before := u.failed
	u.failed = err
	u.resume()
	u.status.Error, u.status.ErrorAt = err, time.Now()
	u.metrics.missed()
	u.tell()
	if before == nil || before.Error() != err.Error() {
		u.log.Warn("no connection to discovery; it is tried again and again", "error", err)
	}
}

// tell wakes who waits. The lock is held.
func (u *Upstream) tell() {
	close(u.changed)
	u.changed = make(chan struct{})
}
