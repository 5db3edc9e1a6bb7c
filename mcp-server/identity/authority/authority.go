// Package authority is mcp-server's certificate authority of the mesh. It is made at the first
// start and kept in the database, encrypted, or read from files. It gives servers their
// certificates, gives each discovery an authority beneath it to sign machines' certificates with,
// and tells all of them what the mesh trusts.
//
// A [State] is everything known at one moment. It never changes: the next state replaces it when
// the database has news. The state folder keeps a sealed copy for a server that starts while the
// database is away.
package authority

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pgmesh/pgmesh/mcp-server/identity/seal"
	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/identity/members"
	"github.com/pgmesh/pgmesh/store/identity/trust"
)

// Config is what an authority needs.
type Config struct {
	Trust   *trust.Store
	Members *members.Store
	// Connected tells whether the database is being followed.
	Connected func() bool

	Keys  *seal.Keys // encrypt the authority's keys; may be None where the database holds no authority
	Files Files      // an authority in files, in place of the database's
	// Signs is false for a server that runs without TLS, or with certificates from files: it signs
	// nothing.
	Signs bool

	Name  string   // of this server
	Hosts []string // names and addresses that clients dial

	StateDir string   // empty saves nothing
	Places   []string // of the database; a state saved from another one is not used

	// StaleAfter is how long the mesh's trust may be unreadable before StaleSince reports it.
	StaleAfter time.Duration

	// Changed is called after each new state. It must not block.
	Changed func()

	Metrics prometheus.Registerer
	Log     *slog.Logger
}

// Authority is the authority of a mesh.
type Authority struct {
	cfg         Config
	files       *files // nil for none
	metrics     *metrics
	redemptions *redemptionQueue
	refusals    *refusalQueue
	freshness   freshness
	streams     *streams
	instanceID  string // unique to this process, because several may have one name

	readSlot  chan struct{} // a semaphore: one goroutine reads at a time
	mu        sync.Mutex    // held while the state or this server's certificate is replaced
	current   atomic.Pointer[State]
	savedText string // what the state folder holds
	lastAlarm string // the error that was logged last

	own      atomic.Pointer[own]
	ready    chan struct{} // closed with the first state; this server has a certificate by then
	stopping chan struct{} // closed by Shutdown
	stop     sync.Once
}

// New returns an authority that has no state before [Authority.Open] or [Authority.Recall].
func New(cfg Config) (*Authority, error) {
	a := &Authority{
		cfg: cfg, metrics: newMetrics(cfg.Metrics), streams: newStreams(), readSlot: make(chan struct{}, 1), instanceID: rand.Text(), ready: make(chan struct{}), stopping: make(chan struct{}),
	}
	a.metrics.ages(a.Stale)
	a.redemptions = newRedemptionQueue(cfg.Members)
	a.refusals = newRefusalQueue(func(ctx context.Context, some []members.Issue) error {
		return cfg.Members.RecordIssues(ctx, a.Identity(), some)
	})
	if cfg.Files.Given() {
		var err error
		if a.files, err = cfg.Files.load(cfg.Log, a.reread); err != nil {
			return nil, err
		}
	} else if cfg.Signs && cfg.Keys == seal.None {
		return nil, seal.ErrNone
	}
	return a, nil
}

// ErrNone says that this server has no authority.
var ErrNone = errors.New("this server has no authority to sign with: it runs with --insecure, or with certificates of files")

// Open reads the state from the database, and creates the authority of a mesh that has none yet.
func (a *Authority) Open(ctx context.Context) error {
	state, err := a.ensure(ctx)
	if err != nil {
		return err
	}
	return a.apply(ctx, state)
}

// apply makes a state that was read the current one, and publishes as of when this server knows it.
func (a *Authority) apply(ctx context.Context, state *State) error {
	before := a.Current()
	if err := a.setState(ctx, state); err != nil {
		return err
	}
	if a.freshness.record(state.readAt, a.Current() != before, nil) {
		a.publishReadAt(ctx, state.readAt)
	}
	return nil
}

// ensure reads the state, and creates the authority if this server has to sign and there is none.
func (a *Authority) ensure(ctx context.Context) (*State, error) {
	for {
		state, err := a.read(ctx)
		if err != nil || !a.cfg.Signs || state.signer != nil {
			return state, err
		}
		if err := a.makeFirst(ctx, state.trust.GetTrustDomain()); err != nil {
			return nil, err
		}
	}
}

// Read reads the state again. If that fails, the current state stays.
func (a *Authority) Read(ctx context.Context) {
	select { // so that an earlier state never replaces a later one
	case a.readSlot <- struct{}{}:
		defer func() { <-a.readSlot }()
	case <-ctx.Done():
		return
	}
	state, err := a.read(ctx)
	if err == nil {
		err = a.apply(ctx, state)
	}
	if err != nil && ctx.Err() == nil {
		a.freshness.record(time.Time{}, false, err)
	}
	switch {
	case err == nil:
		a.mu.Lock()
		defer a.mu.Unlock()
		a.lastAlarm = ""
	case store.Temporary(err) || ctx.Err() != nil:
	default:
		a.logOnce(err)
	}
}

// logOnce logs an error unless it is the one logged last.
func (a *Authority) logOnce(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.lastAlarm == err.Error() {
		return
	}
	a.lastAlarm = err.Error()
	a.cfg.Log.Error("cannot take over what the mesh trusts; what there was before stays in force", "error", err)
}

// Current returns the current state; nil before there is one.
func (a *Authority) Current() *State { return a.current.Load() }

// setState makes a state the current one, unless it says the same.
func (a *Authority) setState(ctx context.Context, state *State) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	before := a.current.Load()
	if before != nil && before.equal(state) {
		return nil
	}
	if err := a.identify(ctx, state); err != nil {
		return err
	}
	a.current.Store(state)
	if before == nil {
		close(a.ready)
	}
	a.metrics.observe(state)
	a.save(state)
	if a.cfg.Changed != nil {
		a.cfg.Changed() // before the streams wake, so that a revoked server is sent nothing more
	}
	if before != nil {
		close(before.replaced)
	}
	return nil
}

// Shutdown ends all WatchTrust streams.
func (a *Authority) Shutdown() { a.stop.Do(func() { close(a.stopping) }) }

// Run renews this server's own certificate, and watches the files, until the context ends.
func (a *Authority) Run(ctx context.Context) error {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if a.files != nil {
			_ = a.files.value.Run(ctx)
		}
	}()
	defer func() { <-ended }()
	defer a.redemptions.wait()
	defer a.refusals.wait()
	defer a.deregister(ctx)
	if !a.cfg.Signs {
		<-ctx.Done()
		return ctx.Err()
	}
	return a.renew(ctx)
}
