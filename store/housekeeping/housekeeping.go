// Package housekeeping does what servers have to do in a database now and then: it takes back what
// was not confirmed, prunes history, and adopts what came around the triggers.
package housekeeping

import (
	"embed"

	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/query"
)

// Store is the housekeeping of a database. Its methods may be called concurrently.
type Store struct{ db *store.Store }

// New returns the housekeeping of a database.
func New(db *store.Store) *Store { return &Store{db} }

//go:embed queries
var files embed.FS

var sql = query.Read[struct {
	Chores, RevertOverdue, PruneExpired, Adopt string
}](files)
