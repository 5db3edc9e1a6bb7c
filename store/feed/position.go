package feed

import "github.com/pgmesh/pgmesh/store"

// Position is a place in the feed: the revision that was seen last.
//
// A database that was restored, or failed over to a lagging standby, assigns the revisions that it
// lost again. Mark tells the revision from all others with its number. A Position without a mark is
// identified by the number alone.
type Position struct {
	Revision store.Revision
	Mark     string
}

// At returns the position of a revision whose mark is unknown.
func At(r store.Revision) Position { return Position{Revision: r} }
