// Package store keeps the resources of a mesh in Postgres, and reports their changes.
//
// Everything is in the schema mesh, whose tables and views are an interface for people and programs
// alike: changes made with psql count as much as those made with this package. A transaction that changes
// resources is one revision, numbered at commit in the order of commits and without gaps. Readers take a
// Snapshot at a revision, and then Follow the batches after it: each once, whole and in order.
package store

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pgmesh/pgmesh/kinds"
)

// Revision numbers a committed transaction that changed resources. The first is 1; 0 is the empty mesh before it.
type Revision = int64

// Resource is a resource at a revision.
type Resource struct {
	Key         kinds.Key
	Labels      map[string]string
	Annotations map[string]string
	Spec        json.RawMessage
	Revision    Revision // the revision that changed it last
	Generation  int64    // how often its spec has changed
	Created     time.Time
	Updated     time.Time

	// Unchecked is set, only in snapshots, if the current rules did not check the resource: it came
	// around the triggers, or is older than the rules and breaks them. mesh.unsound says what is wrong.
	Unchecked bool
}

// Change is what one revision did to one resource. Before is nil for a new resource, After for a deleted one.
type Change struct {
	Key           kinds.Key
	Before, After *Resource
}

// Batch is one revision. It has one change for each resource, in the order of the keys.
type Batch struct {
	Revision    Revision
	Mark        string // see Position
	Author      string // the database role, or the user on whose behalf a server wrote
	Application string // application_name of the session
	Message     string // mesh.message of the session
	Time        time.Time
	Changes     []Change
	Secrets     []SecretChange // in the order of their names

	secret bool // the revision changed secrets
}

// Position is the place in the feed after the batch.
func (b *Batch) Position() Position { return Position{b.Revision, b.Mark} }

// Options of a Store. The zero value is right for production.
type Options struct {
	Application string        // application_name of the sessions; "pgmesh" if empty
	Replica     string        // URL of the database that Snapshot and Follow read, such as a hot standby; the main one if empty
	Poll        time.Duration // how often to poll, in case a notification is lost; 5 s if 0
	// LockTimeout is how long a statement waits for a lock; 6 s if 0.
	LockTimeout time.Duration
	StandbyPoll time.Duration // how often to poll a hot standby, which cannot notify; 200 ms if 0
	Log         *slog.Logger  // nil discards

	// Followed is called with nil when the feed connects, and with the error when it loses its
	// connection. It must not block.
	Followed func(error)

	// Blocked is called when a statement waits for a session that Blockers lists. It must not block.
	Blocked func()

	// Skipped is called for resources of kinds that this program does not know, which a newer one has
	// written. They are left out of what is read. If nil, each such kind is logged once.
	Skipped func(Skipped)
}

// Skipped names a resource that was left out.
type Skipped struct {
	Group, Kind, Namespace, Name string
	Revision                     Revision
}

// Store is a database of resources. Its methods may be called concurrently.
type Store struct {
	pool    *pgxpool.Pool
	trust   *pgxpool.Pool   // for statements about trust, which must not wait behind changes
	feed    *pgx.ConnConfig // what Snapshot and Follow connect to
	options Options
	status  status
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
	feed, err := pgx.ParseConfig(cmp.Or(o.Replica, config.ConnString()))
	if err != nil {
		return nil, fmt.Errorf("reading the URL of the database to follow: %w", err)
	}
	prepareConnection(feed, o.Application+" feed")
	s := &Store{feed: feed, options: o, status: status{onChange: o.Followed}}
	config.ConnConfig.Tracer = &lockTracer{s}
	withSettings(config, "SET lock_timeout = "+milliseconds(o.LockTimeout)+"; "+noCompiling)
	if err := s.connectPools(config); err != nil {
		return nil, Explain("connecting to the database", err)
	}
	return s, nil
}

// connectPools creates the pools, which connect on first use.
func (s *Store) connectPools(config *pgxpool.Config) (err error) {
	if s.pool, err = pgxpool.NewWithConfig(context.Background(), config); err != nil {
		return err
	}
	if s.trust, err = newTrustPool(config); err != nil {
		s.pool.Close()
	}
	return err
}

// Check connects, and checks that this program knows the schema.
func (s *Store) Check(ctx context.Context) error { return s.checkSchema(ctx) }

// Pool has the connections for resources, and for all that may wait behind their changes.
func (s *Store) Pool() *pgxpool.Pool { return s.pool }

// TrustPool has those for statements about trust, which must not wait behind changes.
func (s *Store) TrustPool() *pgxpool.Pool { return s.trust }

// Log is where the parts of the store log.
func (s *Store) Log() *slog.Logger { return s.options.Log }

// Close closes the connections. Calls of Follow must have returned.
func (s *Store) Close() {
	s.pool.Close()
	s.trust.Close()
}

// connectTimeout bounds the wait for an address that drops packets, before the next is tried.
const connectTimeout = 10 * time.Second

func prepareConnection(config *pgx.ConnConfig, application string) {
	config.RuntimeParams["application_name"] = application
	config.OnNotice = receiveNotice
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = connectTimeout
	}
}

func withDefaults(o Options) Options {
	if o.Application == "" {
		o.Application = "pgmesh"
	}
	if o.Poll == 0 {
		o.Poll = 5 * time.Second
	}
	if o.LockTimeout == 0 {
		o.LockTimeout = defaultLockTimeout
	}
	if o.StandbyPoll == 0 {
		o.StandbyPoll = 200 * time.Millisecond
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// connectFeed opens a connection for reading revisions.
func (s *Store) connectFeed(ctx context.Context) (*pgx.Conn, error) {
	conn, err := pgx.ConnectConfig(ctx, s.feed.Copy())
	if err != nil {
		return nil, err
	}
	if _, err := conn.Exec(ctx, feedSettings); err != nil {
		CloseConn(conn)
		return nil, err
	}
	return conn, nil
}

// feedSettings keep Postgres from planning the query for a page for every revision, which would cost more
// than the query. They are set by a statement, not at connection start, because a pooler may refuse a
// start with settings that it does not know.
const feedSettings = "SET plan_cache_mode = force_generic_plan; " + noCompiling

// noCompiling turns off JIT compilation, which takes 50 ms of processor time or more: more than any query
// of the programs gains. The schema's functions turn it off themselves, for sessions of users.
const noCompiling = "SET jit = off"
