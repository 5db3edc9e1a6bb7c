// Package rollout keeps which revision each proxy runs, as discoveries report it.
//
// A report counts for as long as its keeper, a session of a server, holds an advisory lock. So what
// does not change is not written again, and what a server reported that has died counts no more at
// once. Nothing of it is a revision, and nobody is notified.
package rollout

import (
	"context"
	"embed"
	"errors"
	"time"

	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/query"
)

// ErrEnded says that a report counts no more: everything has to be reported again in another.
var ErrEnded = errors.New("the report has ended")

// codeEnded is the SQLSTATE of ErrEnded.
const codeEnded = "MS007"

// keptAway is how long proxies that are away are shown.
const keptAway = 10 * time.Minute

// Store is what a database knows of proxies. Its methods may be called concurrently.
type Store struct{ db *store.Store }

// New returns the proxies of a database.
func New(db *store.Store) *Store { return &Store{db} }

//go:embed queries
var files embed.FS

var sql = query.Read[struct {
	Overdue                            string
	PrepareKeeper, Keep, Alive, EndAll string
	Begin, Take, End                   string
	Sweep, ReadFor, List               string
	Refusals                           string
	Rollouts, RolloutOf, RolloutParts  string
	Statuses, RevisionOf, Runners      string
	Newest, Tally, Behind              string
}](files)

// Sweep removes proxies that have been away for ten minutes, or that have come back elsewhere, and
// servers that are gone. It returns how many rows that were, and writes nothing if there are none.
func (s *Store) Sweep(ctx context.Context) (removed int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, store.QueryTimeout)
	defer cancel()
	err = s.db.Pool().QueryRow(ctx, sql.Sweep, keptAway.Milliseconds()).Scan(&removed)
	return removed, store.Explain("removing proxies that are away", err)
}
