// Package resources reads and changes the resources of a database. A change is one transaction, and
// is done as a whole or not at all.
package resources

import (
	"embed"

	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/internal/rows"
	"github.com/pgmesh/pgmesh/store/query"
)

// Store is the resources of a database. Its methods may be called concurrently.
type Store struct{ db *store.Store }

// New returns the resources of a database.
func New(db *store.Store) *Store { return &Store{db} }

//go:embed queries
var files embed.FS

var sql = query.Read[struct {
	Get, List, Near, Namespaces, Overview, CountKinds   string
	SelectNow, SelectPast, ExportNow, ExportPast, Fit   string
	Begin, RunningTransaction, ExamineChange            string
	CommitConfirmed, CommittedRevision, Deadline        string
	Upsert, Remove, UpsertSecrets, RemoveSecrets, Prune string
	LockExpected, ExpectedRevisions, LastChange         string
	Confirmations, Confirm                              string
}](files, rows.Fragments)
