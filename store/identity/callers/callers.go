// Package callers keeps who may call servers, by tokens, and what readers are shown.
package callers

import (
	"embed"

	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/query"
)

// Store is what a database knows of callers. Its methods may be called concurrently.
type Store struct{ db *store.Store }

// New returns the callers of a database.
func New(db *store.Store) *Store { return &Store{db} }

//go:embed queries
var files embed.FS

var sql = query.Read[struct {
	Tokens, CreateToken, RevokeToken, NoteTokenUses string
	Readers                                         string
}](files)
