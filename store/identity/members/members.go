// Package members keeps who joined the mesh: by which tokens, and with which certificates.
package members

import (
	"embed"

	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/query"
)

// Store is what a database knows of members. Its methods may be called concurrently.
type Store struct{ db *store.Store }

// New returns the members of a database.
func New(db *store.Store) *Store { return &Store{db} }

//go:embed queries
var files embed.FS

var sql = query.Read[struct {
	CreateJoinToken, RevokeJoinToken, RevokeJoinTokenAmong, JoinTokens, RedeemJoinTokens string
	RecordCertificates, NoteControlPlane, Issues, Machines, PruneCertificates            string
}](files)
