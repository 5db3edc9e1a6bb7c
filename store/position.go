package store

// Position is a place in the feed: the revision that was seen last.
//
// A database that was restored, or failed over to a lagging standby, assigns the revisions that it lost
// again. Mark tells the revision from all others with its number. A Position without a mark is identified
// by the number alone.
type Position struct {
	Revision Revision
	Mark     string
}

// At returns the position of a revision whose mark is unknown.
func At(r Revision) Position { return Position{Revision: r} }

// markColumn computes the mark of a row of mesh.transactions with the alias t. It needs no column: two
// histories do not share a pair of transaction id and start time in microseconds.
const markColumn = "t.xid::text || '.' || (extract(epoch FROM t.begun_at) * 1000000)::bigint"
