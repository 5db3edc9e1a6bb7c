// Package store opens the database of a mesh: connections, transactions, errors that say what
// helps.
//
// Everything is in the schema mesh, whose tables and views are an interface for people and programs
// alike: changes made with psql count as much as those made with this package. A transaction that
// changes resources is one revision, numbered at commit in the order of commits and without gaps.
//
// What is asked of the database is in rooms beside it, each of one idea and with its queries in
// .sql files: resources reads and changes what is configured, feed follows the revisions, history
// tells of earlier ones.
package store

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Options of a Store. The zero value is right for production.
type Options struct {
	Application string // application_name of the sessions; "pgmesh" if empty
	// LockTimeout is how long a statement waits for a lock; 6 s if 0.
	LockTimeout time.Duration
	Log         *slog.Logger // nil discards

	// Blocked is called when a statement waits for a session that Blockers lists. It must not
	// block.
	Blocked func()

	// Skipped is called for resources of kinds that this program does not know, which a newer one
	// has written. They are left out of what is read. If nil, each such kind is logged once.
	Skipped func(Skipped)
}

// Store is a database. Its methods may be called concurrently.
type Store struct {
	pool    *pgxpool.Pool
	trust   *pgxpool.Pool // for statements about trust, which must not wait behind changes
	options Options
	unknown unknownKinds
}

// Open connects, and checks that this program knows the schema.
func Open(ctx context.Context, url string, o Options) (*Store, error) {
	s, err := New(url, o)
	if err != nil {
		return nil, err
	}
	if err := s.Check(ctx); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// New returns a store that has not connected. Do not write to it before Check has succeeded.
func New(url string, o Options) (*Store, error) {
	o = withDefaults(o)
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("reading the database URL: %w", err)
	}
	prepareConnection(config.ConnConfig, o.Application)
	s := &Store{options: o}
	config.ConnConfig.Tracer = &lockTracer{s}
	withSettings(config, "SET lock_timeout = "+Milliseconds(o.LockTimeout)+"; "+NoCompiling)
	if err := s.connectPools(config); err != nil {
		return nil, Explain("connecting to the database", err)
	}
	return s, nil
}

// Check connects, and checks that this program knows the schema.
func (s *Store) Check(ctx context.Context) error { return s.checkSchema(ctx) }

// Pool has the connections for resources, and for all that may wait behind their changes.
func (s *Store) Pool() *pgxpool.Pool { return s.pool }

// TrustPool has those for statements about trust, which must not wait behind changes.
func (s *Store) TrustPool() *pgxpool.Pool { return s.trust }

// Log is where the parts of the store log.
func (s *Store) Log() *slog.Logger { return s.options.Log }

// Close closes the connections. Calls of the feed's Follow must have returned.
func (s *Store) Close() {
	s.pool.Close()
	s.trust.Close()
}

func withDefaults(o Options) Options {
	if o.Application == "" {
		o.Application = "pgmesh"
	}
	if o.LockTimeout == 0 {
		o.LockTimeout = defaultLockTimeout
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}
