package feed

import (
	"time"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/secrets"
)

// Batch is one revision. It has one change for each resource, in the order of the keys.
type Batch struct {
	Revision    store.Revision
	Mark        string    // see Position
	Author      string    // the database role, or the user on whose behalf a server wrote
	Application string    // application_name of the session
	Message     string    // mesh.message of the session
	Begun       time.Time // when the transaction began
	Time        time.Time // when it got its number
	Changes     []Change
	Secrets     []secrets.Change // in the order of their names

	secret bool // the revision changed secrets
}

// Change is what one revision did to one resource. Before is nil for a new resource, After for a
// deleted one.
type Change struct {
	Key           kinds.Key
	Before, After *store.Resource
}

// Position is the place in the feed after the batch.
func (b *Batch) Position() Position { return Position{b.Revision, b.Mark} }
