// Package trust stores whom the mesh trusts: its authorities, other meshes and issuers of tokens.
// It also stores who was revoked.
//
// Its statements use connections of their own, so that no change of resources delays a revocation.
package trust

import (
	"embed"

	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/query"
)

// Store is what a database knows of trust. Its methods may be called concurrently.
type Store struct{ db *store.Store }

// New returns the trust of a database.
func New(db *store.Store) *Store { return &Store{db} }

//go:embed queries
var files embed.FS

var sql = query.Read[struct {
	Trust, TrustFederated, DistrustFederated, PutJoinIssuer, RemoveJoinIssuer string
	NoteTrust, Now, TrustLags                                                 string

	Authorities, AuthoritiesWithKeys, FirstAuthority, AddAuthority string
	ActivateAuthority, RetireAuthority, ResealAuthority            string

	Revocations, NamespaceOf                                       string
	RevokeIdentity, RestoreIdentity, RevokeMachine, RestoreMachine string
	RevokeServer, RestoreServer                                    string
}](files)
