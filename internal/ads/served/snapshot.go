// Package served has what an xDS server serves: resources, in sets, in snapshots. All of them are
// immutable, so that any number of streams can share them. A change makes a new set, which shares
// with the one before whatever did not change, and knows what did.
package served

import "time"

// Snapshot is everything that a stream may see at one moment. It is immutable.
type Snapshot struct {
	// Revision names the state. Responses carry it as their version.
	Revision string
	// Push is the number of the push that made it, where several states may have one revision; 0
	// where none do.
	Push uint64
	// Sets has the resources by canonical type URL. An absent type has none.
	Sets map[string]*Set
	// Withheld are types of which nothing is known yet. Requests for them wait, and clients keep
	// what they have.
	Withheld map[string]bool
	// Without is the same snapshot for clients that may not see all of it; nil if all may.
	Without *Snapshot
}

// News describes a change that led to a snapshot. Observers get it with the responses that deliver
// the change and with their answers.
type News struct {
	Committed time.Time // by the clock of where it was made; zero if unknown
	Arrived   time.Time // at this program
}
