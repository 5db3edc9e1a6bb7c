// Package machines keeps what machines register: their services, and the sessions of the
// discoveries that they are connected to.
package machines

import (
	"embed"

	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/query"
)

// Store is what a database knows of machines. Its methods may be called concurrently.
type Store struct{ db *store.Store }

// New returns the machines of a database.
func New(db *store.Store) *Store { return &Store{db} }

//go:embed queries
var files embed.FS

var sql = query.Read[struct {
	Registered, Remove                        string
	OpenSession, RefreshSessions, EndSessions string
	BeginRegistration, Register, RowsWritten  string
	Watch, RemoveGone, RemoveOrphaned         string
}](files)
