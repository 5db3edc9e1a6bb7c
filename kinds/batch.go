package kinds

import (
	"time"

	"google.golang.org/protobuf/types/known/anypb"
)

// Change is one resource that is new, changed, or gone.
type Change struct {
	Key Key
	// Resource is the new state, nil if the resource is gone.
	Resource *Resource
	// Version is the server's version of the resource, or a hash of its content if the server gives
	// none; "" if the change comes from elsewhere.
	Version string
	// Body is what the server sent, if its client was asked for it.
	Body *anypb.Any
}

// Batch is a set of changes that belong together: what one revision changed, or several. It applies
// on top of all batches before it, whole or not at all. The first one has the whole state.
type Batch struct {
	// Revision is the source's number of the state after the batch, 0 if the source has none.
	Revision int64
	// Mark is the version of the mark that ended the batch, "" if the source sends no marks.
	Mark string
	// Committed is the time of that state by the clock of the server's database, zero if the source
	// does not know it.
	Committed time.Time
	Changes   []Change
	// InForce are called in their order, by whoever took the batch, once nothing older than the state
	// after it is served. Taking a batch is not enough: its push may have to wait.
	InForce []func()
}

// TellInForce calls InForce.
func (b Batch) TellInForce() {
	for _, tell := range b.InForce {
		tell()
	}
}

// Difference returns the changes from one state to another. It compares pointers.
func Difference(before, after map[Key]*Resource) []Change {
	var out []Change
	for key, r := range after {
		if before[key] != r {
			out = append(out, Change{Key: key, Resource: r})
		}
	}
	for key := range before {
		if after[key] == nil {
			out = append(out, Change{Key: key})
		}
	}
	return out
}
