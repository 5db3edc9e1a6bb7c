// Package feed reads the revisions of a database: a Snapshot of all resources at a revision first,
// and then, by Follow, the batches after it, each once, whole and in order.
package feed

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/internal/rows"
	"github.com/pgmesh/pgmesh/store/query"
)

// ErrTooOld says that the batches after a revision are gone: they were pruned, or the database was
// set back to before it. Take a new Snapshot.
var ErrTooOld = errors.New("the batches after this revision are gone")

// Feed reads revisions. Its methods may be called concurrently.
type Feed struct {
	db      *store.Store
	config  *pgx.ConnConfig // what Snapshot and Follow connect to
	options Options
	status  status
}

// Options of a Feed. The zero value is right for production.
type Options struct {
	Replica     string        // URL of the database that Snapshot and Follow read, such as a hot standby; the store's if empty
	Poll        time.Duration // how often to poll, in case a notification is lost; 5 s if 0
	StandbyPoll time.Duration // how often to poll a hot standby, which cannot notify; 200 ms if 0

	// Followed is called with nil when Follow connects, and with the error when it loses its
	// connection. It must not block.
	Followed func(error)
}

// New returns the feed of a database. It has not connected.
func New(db *store.Store, o Options) (*Feed, error) {
	o.Poll, o.StandbyPoll = cmp.Or(o.Poll, 5*time.Second), cmp.Or(o.StandbyPoll, 200*time.Millisecond)
	config, err := db.ConnConfig(o.Replica, "feed")
	if err != nil {
		return nil, fmt.Errorf("reading the URL of the database to follow: %w", err)
	}
	return &Feed{db: db, config: config, options: o, status: status{onChange: o.Followed}}, nil
}

//go:embed queries
var files embed.FS

var sql = query.Read[struct {
	Settings, PageSettings, Page, Position, Newest string
	Snapshot, Unchecked, Installation              string
}](files, rows.Fragments)

// connect opens a connection for reading revisions.
func (f *Feed) connect(ctx context.Context) (*pgx.Conn, error) {
	conn, err := pgx.ConnectConfig(ctx, f.config.Copy())
	if err != nil {
		return nil, err
	}
	if _, err := conn.Exec(ctx, sql.Settings); err != nil {
		store.CloseConn(conn)
		return nil, err
	}
	return conn, nil
}
