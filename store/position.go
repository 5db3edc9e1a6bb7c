package store

// Position is a place in the feed: the revision that was seen last.
//
// A database that was restored, or failed over to a standby that lagged, gives the numbers it lost a second time. Mark
// tells the revision from all others that have its number. A Position without one is taken at its number.
type Position struct {
	Revision Revision
	Mark     string
}

// At is the position of a revision whose mark is not known.
func At(r Revision) Position { return Position{Revision: r} }

// markColumn makes a mark of a row of mesh.transactions, under the alias t. It needs no column of its own: the id of a transaction
// and the microsecond in which it began are a pair that two histories do not share.
const markColumn = "t.xid::text || '.' || (extract(epoch FROM t.begun_at) * 1000000)::bigint"
