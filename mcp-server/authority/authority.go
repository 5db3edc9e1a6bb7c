// Package authority is the mesh's certificate authority, as mcp-server has it: made at the first start and kept in the database, encrypted,
// or read from files. It gives servers their certificates, discoveries authorities of their own beneath it for those of machines, and tells
// all of them what the mesh trusts.
//
// What is known is a [State], which never changes: another takes its place when the database tells of something new. It is also kept in the
// state folder, sealed, for a server that starts while the database is away.
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

	"github.com/pgmesh/pgmesh/mcp-server/seal"
	"github.com/pgmesh/pgmesh/store"
)

// Config says what the authority is made of.
type Config struct {
	Store *store.Store
	Keys  *seal.Keys // that its keys are encrypted with; without any there is no authority in the database
	Files Files      // in place of the database's
	// Signs is false for a server that speaks without TLS, or with certificates of files: then nothing is signed.
	Signs bool

	Name  string   // of this server
	Hosts []string // by which it is dialed

	StateDir string   // empty keeps nothing
	Places   []string // where the database is, so that what was kept of another does not count

	// StaleAfter is how long what the mesh trusts may not be readable before this server says so.
	StaleAfter time.Duration

	// Changed is called when something new is known. It must not block.
	Changed func()

	Metrics prometheus.Registerer
	Log     *slog.Logger
}

// Authority is the authority of a mesh.
type Authority struct {
	cfg     Config
	files   *files // nil for none
	metrics *metrics
	redeems *redeems
	refused *refusals
	fresh   freshness
	streams *streams
	life    string // of this server: names can be those of several

	turn    chan struct{} // has room for the one who reads
	mu      sync.Mutex    // held while something is learnt
	current atomic.Pointer[State]
	kept    string // what the state folder has
	alarm   string // that was told last

	own      atomic.Pointer[own]
	ready    chan struct{} // closed once something is known, and with it there is a certificate
	stopping chan struct{} // closed when streams are to end
	stop     sync.Once
}

// New returns the authority, of which nothing is known before [Authority.Open] or [Authority.Recall].
func New(cfg Config) (*Authority, error) {
	a := &Authority{
		cfg: cfg, metrics: newMetrics(cfg.Metrics), streams: newStreams(), turn: make(chan struct{}, 1), life: rand.Text(), ready: make(chan struct{}), stopping: make(chan struct{}),
	}
	a.metrics.ages(a.Stale)
	a.redeems = newRedeems(cfg.Store)
	a.refused = newRefusals(func(ctx context.Context, some []store.Issue) error {
		return cfg.Store.RecordIssues(ctx, a.Identity(), some)
	})
	if cfg.Files.Given() {
		var err error
		if a.files, err = cfg.Files.load(cfg.Log, a.reread); err != nil {
			return nil, err
		}
	} else if cfg.Signs && cfg.Keys == nil {
		return nil, seal.ErrNone
	}
	return a, nil
}

// ErrNone says that this server has no authority.
var ErrNone = errors.New("this server has no authority to sign with: it runs with --insecure, or with certificates of files")

// Open takes over what the database has, and makes the authority of a mesh that has none yet.
func (a *Authority) Open(ctx context.Context) error {
	known, err := a.ensure(ctx)
	if err != nil {
		return err
	}
	return a.take(ctx, known)
}

// take makes what was read what counts, and says so.
func (a *Authority) take(ctx context.Context, known *State) error {
	before := a.Current()
	if err := a.learn(ctx, known); err != nil {
		return err
	}
	if a.fresh.heardFrom(known.readAt, a.Current() != before, nil) {
		a.note(ctx, known.readAt)
	}
	return nil
}

// ensure reads what the database has, until there is somebody to sign if somebody has to be.
func (a *Authority) ensure(ctx context.Context) (*State, error) {
	for {
		known, err := a.read(ctx)
		if err != nil || !a.cfg.Signs || known.signer != nil {
			return known, err
		}
		if err := a.makeFirst(ctx, known.trust.GetTrustDomain()); err != nil {
			return nil, err
		}
	}
}

// Read takes over what the database has now. What was known stays where it cannot be read.
func (a *Authority) Read(ctx context.Context) {
	select { // what was read later is taken later
	case a.turn <- struct{}{}:
		defer func() { <-a.turn }()
	case <-ctx.Done():
		return
	}
	known, err := a.read(ctx)
	if err == nil {
		err = a.take(ctx, known)
	}
	if err != nil && ctx.Err() == nil {
		a.fresh.heardFrom(time.Time{}, false, err)
	}
	switch {
	case err == nil:
		a.mu.Lock()
		defer a.mu.Unlock()
		a.alarm = ""
	case store.Temporary(err) || ctx.Err() != nil:
	default:
		a.complain(err)
	}
}

// complain says once what is wrong with what the database has.
func (a *Authority) complain(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.alarm == err.Error() {
		return
	}
	a.alarm = err.Error()
	a.cfg.Log.Error("cannot take over what the mesh trusts; what there was before stays in force", "error", err)
}

// Current is what is known now, nil if nothing is.
func (a *Authority) Current() *State { return a.current.Load() }

// learn makes a state the one that counts.
func (a *Authority) learn(ctx context.Context, known *State) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	before := a.current.Load()
	if before != nil && before.says(known) {
		return nil
	}
	if err := a.identify(ctx, known); err != nil {
		return err
	}
	a.current.Store(known)
	if before == nil {
		close(a.ready)
	}
	a.metrics.learnt(known)
	a.keep(known)
	if a.cfg.Changed != nil {
		a.cfg.Changed() // first: who was revoked is told nothing more
	}
	if before != nil {
		close(before.replaced)
	}
	return nil
}

// Shutdown ends the streams of those who are told what is trusted.
func (a *Authority) Shutdown() { a.stop.Do(func() { close(a.stopping) }) }

// Run keeps this server's own certificate new, and the files, until the context ends.
func (a *Authority) Run(ctx context.Context) error {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if a.files != nil {
			_ = a.files.value.Run(ctx)
		}
	}()
	defer func() { <-ended }()
	defer a.redeems.wait()
	defer a.refused.wait()
	defer a.leave(ctx)
	if !a.cfg.Signs {
		<-ctx.Done()
		return ctx.Err()
	}
	return a.renew(ctx)
}
