package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Any session that may lock what a statement needs can make it wait without end. So a statement
// waits no longer than Options.LockTimeout, and its error names who held the lock. What decides on
// trust has its own connections, which waiting statements cannot use up.

const (
	// defaultLockTimeout is shorter than mcp-client's timeout, so that the answer can name the
	// blocker.
	defaultLockTimeout = 6 * time.Second

	// A statement that runs this long may wait for a lock. The tracer then looks for blockers, and
	// again at each interval.
	lockCheckInterval = time.Second

	// trustConns bounds the connections for statements about trust.
	trustConns = 4

	// trustSettings bound statements about trust, which are repeated soon anyway.
	trustSettings = "SET lock_timeout = '3s'; SET statement_timeout = '10s'; " + NoCompiling
)

// BlockedError says that a lock could not be had in time.
type BlockedError struct {
	Reason, Advice string
}

func (e *BlockedError) Error() string { return e.Reason + " (" + e.Advice + ")" }

// Is matches ErrConflict, for callers that retry later.
func (e *BlockedError) Is(target error) bool { return target == ErrConflict }

// withSettings runs settings on each new connection of a pool.
func withSettings(config *pgxpool.Config, settings string) {
	config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, settings)
		return err
	}
}

// newTrustPool creates the pool for statements that must not wait behind changes.
func newTrustPool(config *pgxpool.Config) (*pgxpool.Pool, error) {
	config = config.Copy()
	config.MaxConns, config.MinConns = trustConns, 0
	withSettings(config, trustSettings)
	return pgxpool.NewWithConfig(context.Background(), config)
}

// lockTracer is a pgx.QueryTracer that finds out who blocks a slow statement.
type lockTracer struct{ store *Store }

// tracedKey marks the context of a traced statement, and tracerKey that of the tracer's own.
type (
	tracedKey struct{}
	tracerKey struct{}
)

// tracedStatement is a running statement.
type tracedStatement struct {
	cancel context.CancelFunc
	timer  *time.Timer

	mu       sync.Mutex
	blockers []Blocker // as found last
}

// TraceQueryStart implements pgx.QueryTracer.
func (w *lockTracer) TraceQueryStart(ctx context.Context, conn *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	if ctx.Value(tracerKey{}) != nil {
		return ctx
	}
	looking, cancel := context.WithCancel(context.WithoutCancel(ctx))
	it, pid := &tracedStatement{cancel: cancel}, conn.PgConn().PID()
	it.mu.Lock() // until the timer is set, which its own function sets again
	defer it.mu.Unlock()
	it.timer = time.AfterFunc(lockCheckInterval, func() { it.findBlockers(looking, w.store, pid) })
	return context.WithValue(ctx, tracedKey{}, it)
}

// findBlockers looks for blockers, and again after each interval while the statement runs.
func (it *tracedStatement) findBlockers(ctx context.Context, s *Store, pid uint32) {
	found, err := s.blockersOf(ctx, pid)
	if ctx.Err() != nil {
		return
	}
	if err == nil && len(found) > 0 {
		it.mu.Lock()
		it.blockers = found
		it.mu.Unlock()
		if s.options.Blocked != nil {
			s.options.Blocked()
		}
	}
	it.mu.Lock()
	defer it.mu.Unlock()
	it.timer.Reset(lockCheckInterval) // harmless at the end: the context ends the next look
}

// TraceQueryEnd adds the blockers to the error of a statement that got no lock.
func (w *lockTracer) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryEndData) {
	it, ok := ctx.Value(tracedKey{}).(*tracedStatement)
	if !ok {
		return
	}
	it.cancel()
	it.mu.Lock()
	defer it.mu.Unlock()
	it.timer.Stop()
	if pg, is := errors.AsType[*pgconn.PgError](data.Err); is && pg.Code == CodeNoLock && len(it.blockers) > 0 {
		pg.Detail, pg.Hint = whoBlocks(it.blockers)
	}
}

// inTheWay begins a detail that TraceQueryEnd has written.
const inTheWay = "in the way: "

func whoBlocks(blockers []Blocker) (detail, hint string) {
	names := make([]string, len(blockers))
	for i := range blockers {
		names[i] = blockers[i].String()
	}
	return inTheWay + strings.Join(names, ", "), fmt.Sprintf("mcp-client blockers end %d ends that session", blockers[0].PID)
}

// blocked turns a lock timeout into an error that names the blocker.
func blocked(pg *pgconn.PgError) error {
	switch {
	case strings.HasPrefix(pg.Detail, inTheWay):
		return &BlockedError{"it waited too long for what another session has locked, and nothing was changed; " + pg.Detail, pg.Hint}
	case strings.Contains(pg.Message, "lock timeout"):
		return &BlockedError{"it waited too long for what another session has locked, and nothing was changed", "mcp-client blockers lists the sessions that others wait for"}
	}
	return fmt.Errorf("%w: %s", ErrConflict, pg.Message)
}
