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

// Any session that may lock what a statement needs can keep it waiting for as long as it likes. So no statement waits for a lock for longer than
// Options.LockTimeout, and says then who had it. What decides whom to trust goes by connections of its own, which statements that wait cannot
// use up.

const (
	// defaultLockTimeout is shorter than mcp-client waits for an answer, which is to say who is in the way.
	defaultLockTimeout = 6 * time.Second

	// A statement that has run for so long may wait for a lock, and again after as long: quiet meshes never ask.
	suspicious = time.Second

	// reserved bounds the connections for what must not wait behind changes.
	reserved = 4

	// trustSettings keep a statement about trust from waiting long for anything. It is read again soon.
	trustSettings = "SET lock_timeout = '3s'; SET statement_timeout = '10s'; " + noCompiling
)

// BlockedError is that a lock was not to be had in time.
type BlockedError struct {
	Reason, Advice string
}

func (e *BlockedError) Error() string { return e.Reason + " (" + e.Advice + ")" }

// Is tells that it is an ErrConflict to those who try again by themselves some time.
func (e *BlockedError) Is(target error) bool { return target == ErrConflict }

// bounded has the connections of a pool wait for locks no longer than a time.
func bounded(config *pgxpool.Config, settings string) {
	config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, settings)
		return err
	}
}

// newTrustPool makes the pool for what must not wait behind changes.
func newTrustPool(config *pgxpool.Config) (*pgxpool.Pool, error) {
	config = config.Copy()
	config.MaxConns, config.MinConns = reserved, 0
	bounded(config, trustSettings)
	return pgxpool.NewWithConfig(context.Background(), config)
}

// waits is a pgx.QueryTracer that looks who is in the way of a statement that takes long.
type waits struct{ store *Store }

// waitKey is what the context of a statement has that is looked after, and lookKey of one that looks.
type (
	waitKey struct{}
	lookKey struct{}
)

// waiting is a statement that runs.
type waiting struct {
	cancel context.CancelFunc
	timer  *time.Timer

	mu       sync.Mutex
	blockers []Blocker // those that were seen last
}

// TraceQueryStart is the tracer's.
func (w *waits) TraceQueryStart(ctx context.Context, conn *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	if ctx.Value(lookKey{}) != nil {
		return ctx
	}
	looking, cancel := context.WithCancel(context.WithoutCancel(ctx))
	it, pid := &waiting{cancel: cancel}, conn.PgConn().PID()
	it.mu.Lock()
	defer it.mu.Unlock()
	it.timer = time.AfterFunc(suspicious, func() { it.look(looking, w.store, pid) })
	return context.WithValue(ctx, waitKey{}, it)
}

// look asks who is in the way, and again after a while for as long as the statement runs.
func (it *waiting) look(ctx context.Context, s *Store, pid uint32) {
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
	it.timer.Reset(suspicious)
}

// TraceQueryEnd says in the error of a statement that got no lock who had it.
func (w *waits) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryEndData) {
	it, ok := ctx.Value(waitKey{}).(*waiting)
	if !ok {
		return
	}
	it.cancel()
	it.mu.Lock()
	defer it.mu.Unlock()
	it.timer.Stop()
	if pg, is := errors.AsType[*pgconn.PgError](data.Err); is && pg.Code == codeNoLock && len(it.blockers) > 0 {
		pg.Detail, pg.Hint = whoBlocks(it.blockers)
	}
}

// codeNoLock is the SQLSTATE of a lock that was not to be had.
const codeNoLock = "55P03"

// inTheWay begins the detail by which explain knows what was found out.
const inTheWay = "in the way: "

func whoBlocks(blockers []Blocker) (detail, hint string) {
	names := make([]string, len(blockers))
	for i := range blockers {
		names[i] = blockers[i].String()
	}
	return inTheWay + strings.Join(names, ", "), fmt.Sprintf("mcp-client blockers end %d ends that session", blockers[0].PID)
}

// blocked turns a lock that was not to be had into an error that says who has it.
func blocked(pg *pgconn.PgError) error {
	switch {
	case strings.HasPrefix(pg.Detail, inTheWay):
		return &BlockedError{"it waited too long for what another session has locked, and nothing was changed; " + pg.Detail, pg.Hint}
	case strings.Contains(pg.Message, "lock timeout"):
		return &BlockedError{"it waited too long for what another session has locked, and nothing was changed", "mcp-client blockers lists the sessions that others wait for"}
	}
	return fmt.Errorf("%w: %s", ErrConflict, pg.Message)
}
