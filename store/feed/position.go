package feed

import (
	"fmt"

	"github.com/pgmesh/pgmesh/store"
)

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

// is reports whether a revision with the number of the position has its mark, too.
func (p Position) is(mark string) bool { return p.Mark == "" || p.Mark == mark }

// gone says that the database does not have the revision of the position.
func (p Position) gone() error {
	return fmt.Errorf("%w: revision %d was seen and the database does not have it: it was restored, or failed over to a standby that lagged", ErrTooOld, p.Revision)
}
